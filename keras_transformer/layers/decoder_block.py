"""One block of the decoder."""

import keras

from keras_transformer.layers.attention.mechanism import make_mechanism, serialize_mechanism
from keras_transformer.layers.multi_head_attention import symbolic
from keras_transformer.layers.transformer_block import TransformerBlock, as_tuple


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
        return_weights: whether to return as well a dictionary of attention weights: "self"
            `[B, H, T, T]` and, with a memory, "cross" `[B, H, T, S]`.
        cache: what `initial_cache` gave, or the call before this one; with it, `inputs` are the
            next positions alone and `memory` is not needed. The updated cache is returned last.
        offset: number of positions already in the cache.

    Example:

    >>> x, memory = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = DecoderBlock(num_heads=4, feed_forward_width=256, order="post")(x, memory)
    >>> keras.Model([x, memory], y).output_shape
    (None, None, 64)
    """

    def __init__(
        self, num_heads, feed_forward_width, cross_attention="scaled_dot_product", **kwargs
    ):
        super().__init__(num_heads, feed_forward_width, **kwargs)
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
        return_weights=False,
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
            return_weights=return_weights,
            cache=cache and cache["self"],
            offset=offset,
        )
        if return_weights:
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
                return_weights=return_weights,
            )
            if return_weights:
                weights["cross"] = extras.pop(0)
            if cache is not None:
                new_cache["memory"] = cache["memory"]
        outputs = self.feed(outputs, training)
        asked_for = ([weights] if return_weights else []) + ([new_cache] if new_cache else [])
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
        return_weights=False,
        cache=None,
        **kwargs,
    ):
        self._check_memory(memory, cache)
        outputs, *extras = as_tuple(
            self.self_attention.compute_output_spec(
                inputs,
                attention_mask=attention_mask,
                use_causal_mask=use_causal_mask,
                return_weights=return_weights,
                cache=cache and cache["self"],
            )
        )
        asked_for = []
        if return_weights:
            asked_for.append({"self": extras.pop(0)})
        if cache is not None:
            asked_for.append({name: symbolic(part) for name, part in cache.items()})
        if self.cross_attention is not None:
            _, *cross = as_tuple(
                self.cross_attention.compute_output_spec(
                    inputs,
                    memory,
                    projected_memory=cache and cache["memory"],
                    return_weights=return_weights,
                )
            )
            if return_weights:
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
