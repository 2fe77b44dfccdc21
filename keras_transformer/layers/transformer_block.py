"""One block of the decoder."""

import keras

from keras_transformer.layers.attention.mechanism import make_mechanism, serialize_mechanism
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention, symbolic
from keras_transformer.layers.normalization import Residual


def as_tuple(outputs):
    """What a layer gave, alone or with other things that were asked for, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


class TransformerBlock(keras.layers.Layer):
    """Base of `EncoderBlock` and `DecoderBlock`.

    Args:
        num_heads: H, heads of attention; must divide the model's width M.
        intermediate_dim: F, size of the feed-forward network's inner layer.
        num_key_value_heads: see `MultiHeadAttention`; by default H.
        attention: mechanism of self-attention, a registered name or an instance to take after.
        activation: see `FeedForward`.
        normalization: "layer" or "rms".
        normalize_first: whether the input of each sublayer is normalized (pre-norm), or the output
            of its residual sum (post-norm).
        dropout: rate on what each sublayer adds.
        attention_dropout: rate on attention weights.
        activation_dropout: rate on the feed-forward network's inner activations.
        use_bias: whether projections and dense layers have biases.
        epsilon: of the normalizations.
    """

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        num_key_value_heads=None,
        attention="scaled_dot_product",
        activation="relu",
        normalization="layer",
        normalize_first=True,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        use_bias=True,
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.num_key_value_heads = num_key_value_heads
        self.activation = activation
        self.normalization = normalization
        self.normalize_first = normalize_first
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.use_bias = use_bias
        self.epsilon = epsilon
        self.supports_masking = True

        self.self_attention = self._attention("self_attention", attention)
        self.self_attention_residual = self._residual("self_attention_residual")
        self.feed_forward = FeedForward(
            intermediate_dim,
            activation=activation,
            dropout=activation_dropout,
            use_bias=use_bias,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _attention(self, name, mechanism):
        return MultiHeadAttention(
            self.num_heads,
            num_key_value_heads=self.num_key_value_heads,
            mechanism=mechanism,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _residual(self, name):
        return Residual(
            normalize_first=self.normalize_first,
            normalization=self.normalization,
            dropout=self.dropout,
            epsilon=self.epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape):
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)
        self.built = True

    def attend(self, attention, residual, inputs, training, **kwargs):
        """An attention sublayer in its residual: outputs, and a list of what else was asked for."""
        attended = attention(residual.enter(inputs), training=training, **kwargs)
        change, *extras = as_tuple(attended)
        return residual(inputs, change, training=training), extras

    def feed(self, inputs, training):
        """The feed-forward sublayer in its residual."""
        change = self.feed_forward(self.feed_forward_residual.enter(inputs), training=training)
        return self.feed_forward_residual(inputs, change, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "attention": serialize_mechanism(self.self_attention.mechanism),
            "activation": self.activation,
            "normalization": self.normalization,
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "use_bias": self.use_bias,
            "epsilon": self.epsilon,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderBlock(TransformerBlock):
    """Self-attention over the whole sequence, then a feed-forward network.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1. The mechanism is any that is
    registered in `keras_transformer.layers.MECHANISMS`.

    Masking: padding is hidden by the implicit Keras mask of `inputs`, which the output carries on.

    Args: see `TransformerBlock`.

    Call arguments:
        inputs: `[B, T, M]`.
        attention_mask, relations: see `MultiHeadAttention`.
        return_attention_scores: whether to return the attention weights `[B, H, T, T]` as well.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = EncoderBlock(num_heads=4, intermediate_dim=256, dropout=0.1)(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def call(
        self,
        inputs,
        attention_mask=None,
        return_attention_scores=False,
        relations=None,
        mask=None,  # Keras puts the implicit mask of `inputs` here when it is the only tensor …
        inputs_mask=None,  # … and here when it is not.
        training=None,
    ):
        outputs, weights = self.attend(
            self.self_attention,
            self.self_attention_residual,
            inputs,
            training,
            attention_mask=attention_mask,
            query_mask=inputs_mask if mask is None else mask,
            return_attention_scores=return_attention_scores,
            relations=relations,
        )
        outputs = self.feed(outputs, training)
        return (outputs, *weights) if return_attention_scores else outputs

    def compute_output_spec(
        self, inputs, attention_mask=None, return_attention_scores=False, relations=None, **kwargs
    ):
        return self.self_attention.compute_output_spec(
            inputs,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            relations=relations,
        )

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderBlock(TransformerBlock):
    """Self-attention over the past, attention to a memory if any, and a feed-forward network.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1; called without a memory, the
    block of a language model (Radford et al. 2018, "Improving Language Understanding by Generative
    Pre-Training"). Whether there is a memory is settled by the first call.

    Masking: padding is hidden by the implicit Keras masks of `inputs` and `memory`; the output
    carries on that of `inputs`.

    Args:
        cross_attention: mechanism of the attention to the memory, a registered name or an instance.

    Other arguments: see `TransformerBlock`.

    Call arguments:
        inputs: `[B, T, M]`.
        memory: `[B, S, N]`, or None.
        attention_mask: for self-attention, see `MultiHeadAttention`.
        use_causal_mask: whether a position sees only what came before it.
        return_attention_scores: whether to return as well a dictionary of attention weights: "self"
            `[B, H, T, T]` and, with a memory, "cross" `[B, H, T, S]`.
        cache: what `initial_cache` gave, or the call before this one; with it, `inputs` are the
            next positions alone and `memory` is not needed. The updated cache is returned last.
        offset: number of positions already in the cache.

    Example:

    >>> x, memory = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = DecoderBlock(num_heads=4, intermediate_dim=256, normalize_first=False)(x, memory)
    >>> keras.Model([x, memory], y).output_shape
    (None, None, 64)
    """

    def __init__(self, num_heads, intermediate_dim, cross_attention="scaled_dot_product", **kwargs):
        super().__init__(num_heads, intermediate_dim, **kwargs)
        self.cross_mechanism = serialize_mechanism(make_mechanism(cross_attention))
        self.cross_attention = None

    def build(self, inputs_shape, memory_shape=None):
        if memory_shape is not None:
            self.cross_attention = self._attention("cross_attention", self.cross_mechanism)
            self.cross_attention.build(inputs_shape, memory_shape)
            self.cross_attention_residual = self._residual("cross_attention_residual")
            self.cross_attention_residual.build(inputs_shape)
        super().build(inputs_shape)

    def call(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        use_causal_mask=True,
        return_attention_scores=False,
        cache=None,
        offset=0,
        mask=None,  # Keras puts the implicit mask of `inputs` here when it is the only tensor …
        inputs_mask=None,  # … and here when it is not.
        memory_mask=None,
        training=None,
    ):
        self._check_memory(memory, cache)
        weights, new_cache = {}, {}
        outputs, extras = self.attend(
            self.self_attention,
            self.self_attention_residual,
            inputs,
            training,
            attention_mask=attention_mask,
            query_mask=inputs_mask if mask is None else mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            cache=cache and cache["self"],
            offset=offset,
        )
        if return_attention_scores:
            weights["self"] = extras.pop(0)
        if cache is not None:
            new_cache["self"] = extras.pop(0)
        if self.cross_attention is not None:
            outputs, extras = self.attend(
                self.cross_attention,
                self.cross_attention_residual,
                outputs,
                training,
                memory=memory,
                memory_mask=memory_mask,
                projected_memory=cache and cache["memory"],
                return_attention_scores=return_attention_scores,
            )
            if return_attention_scores:
                weights["cross"] = extras.pop(0)
            if cache is not None:
                new_cache["memory"] = cache["memory"]
        outputs = self.feed(outputs, training)
        asked_for = ([weights] if return_attention_scores else []) + (
            [new_cache] if new_cache else []
        )
        return (outputs, *asked_for) if asked_for else outputs

    def initial_cache(self, batch_size, max_length, memory=None, memory_mask=None):
        """A cache for decoding up to `max_length` positions, with the memory projected once.

        Args:
            batch_size, max_length: of what is to be decoded.
            memory: `[B, S, N]`, for a block that attends to one.
            memory_mask: boolean `[B, S]`, False for padding.
        """
        self._check_memory(memory, cache=None)
        cache = {"self": self.self_attention.initial_cache(batch_size, max_length)}
        if self.cross_attention is not None:
            cache["memory"] = self.cross_attention.project_memory(memory, memory_mask)
        return cache

    def compute_output_spec(
        self,
        inputs,
        memory=None,
        attention_mask=None,
        use_causal_mask=True,
        return_attention_scores=False,
        cache=None,
        **kwargs,
    ):
        self._check_memory(memory, cache)
        outputs, *extras = as_tuple(
            self.self_attention.compute_output_spec(
                inputs,
                attention_mask=attention_mask,
                use_causal_mask=use_causal_mask,
                return_attention_scores=return_attention_scores,
                cache=cache and cache["self"],
            )
        )
        asked_for = []
        if return_attention_scores:
            asked_for.append({"self": extras.pop(0)})
        if cache is not None:
            asked_for.append({name: symbolic(part) for name, part in cache.items()})
        if self.cross_attention is not None:
            _, *cross = as_tuple(
                self.cross_attention.compute_output_spec(
                    inputs,
                    memory,
                    projected_memory=cache and cache["memory"],
                    return_attention_scores=return_attention_scores,
                )
            )
            if return_attention_scores:
                asked_for[0]["cross"] = cross[0]
        return (outputs, *asked_for) if asked_for else outputs

    def _check_memory(self, memory, cache):
        """A memory that comes or goes after the first call would change the forward pass."""
        has_memory = memory is not None or (cache is not None and "memory" in cache)
        if has_memory != (self.cross_attention is not None):
            was, now = ("with", "without") if self.cross_attention else ("without", "with")
            raise ValueError(
                f"DecoderBlock '{self.name}' was first called {was} a memory and is now called "
                f"{now} one. Use a block for each."
            )

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "cross_attention": self.cross_mechanism,
        }
