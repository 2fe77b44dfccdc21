"""Blocks of the Transformer's encoder and decoder."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    Integer,
    make_mechanism,
    serialize_settings,
)
from keras_transformer.layers.feed_forwards.feed_forward import serialize_activation
from keras_transformer.layers.feed_forwards.registry import make_feed_forward
from keras_transformer.layers.kv_cache import CrossAttentionCache, KVCache
from keras_transformer.layers.multi_head_attention import (
    MultiHeadAttention,
    as_tuple,
    with_extras,
)
from keras_transformer.layers.residual import Residual


class TransformerBlock(ConfiguredLayer):
    """Base of the blocks: self-attention and a feed-forward network.

    Args: those of `EncoderBlock`.
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        num_key_value_heads: int | None = None,
        key_dim: int | None = None,
        query_key_normalization: str | None = None,
        attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        feed_forward: str | keras.layers.Layer | dict[str, Any] = "dense",
        feed_forward_options: Mapping[str, Any] | None = None,
        activation: str | Callable[..., Any] = "relu",
        normalization: str = "layer",
        normalize_first: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        use_bias: bool = True,
        attention_bias: bool | None = None,
        attention_output_bias: bool | None = None,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads: int = num_heads
        self.intermediate_dim: int = intermediate_dim
        self.num_key_value_heads: int | None = num_key_value_heads
        self.key_dim: int | None = key_dim
        self.query_key_normalization: str | None = query_key_normalization
        self.feed_forward_options: dict[str, Any] = dict(feed_forward_options or {})
        self.activation: Any = activation
        self.normalization: str = normalization
        self.normalize_first: bool = normalize_first
        self.dropout: float = dropout
        self.attention_dropout: float = attention_dropout
        self.activation_dropout: float = activation_dropout
        self.use_bias: bool = use_bias
        self.attention_bias: bool | None = attention_bias
        self.attention_output_bias: bool | None = attention_output_bias
        self.epsilon: float = epsilon
        self.supports_masking = True

        self.self_attention: MultiHeadAttention = self._make_attention("self_attention", attention)
        self.self_attention_residual: Residual = self._make_residual("self_attention_residual")
        self._feed_forward_name = feed_forward if isinstance(feed_forward, str) else None
        self.feed_forward: keras.layers.Layer = make_feed_forward(
            feed_forward,
            feed_forward_options,
            intermediate_dim=intermediate_dim,
            activation=activation,
            dropout=activation_dropout,
            use_bias=use_bias,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_residual: Residual = self._make_residual("feed_forward_residual")

    def _make_attention(self, name: str, mechanism: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.num_heads,
            key_dim=self.key_dim,
            num_key_value_heads=self.num_key_value_heads,
            query_key_normalization=self.query_key_normalization,
            epsilon=self.epsilon,
            mechanism=mechanism,
            dropout=self.attention_dropout,
            use_bias=self.use_bias if self.attention_bias is None else self.attention_bias,
            use_output_bias=self.attention_output_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _make_residual(self, name: str) -> Residual:
        return Residual(
            normalize_first=self.normalize_first,
            normalization=self.normalization,
            dropout=self.dropout,
            epsilon=self.epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape: Shape) -> None:
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        if not self.feed_forward.built:
            self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)

    def initial_cache(self, batch_size: Integer, max_length: Integer | None = None) -> KVCache:
        """Returns an empty KV cache; see `MultiHeadAttention.initial_cache`."""
        return self.self_attention.initial_cache(batch_size, max_length)

    @staticmethod
    def _apply(
        sublayer: keras.layers.Layer,
        residual: Residual,
        inputs: Any,
        training: bool | None,
        **kwargs: Any,
    ) -> tuple[Any, list[Any]]:
        """Returns the outputs of a sublayer with its residual, and a list of its other results."""
        results = sublayer(residual.sublayer_inputs(inputs), training=training, **kwargs)
        change, *extras = as_tuple(results)
        return residual(inputs, change, training=training), extras

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)  # with symbolic tensors: only other layers see them

    def compute_output_shape(
        self, inputs_shape: Shape, encoder_outputs_shape: Shape | None = None
    ) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "attention": serialize_settings(self.self_attention.mechanism),
            "feed_forward": self._feed_forward_name or serialize_settings(self.feed_forward),
            "activation": serialize_activation(self.activation),
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderBlock(TransformerBlock):
    """Self-attention over the whole sequence, then a feed-forward network.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1.

    Masking: padding is hidden by the implicit Keras mask of `inputs`. The output has the same mask.

    Args:
        num_heads: Integer. H, number of attention heads; must divide the size M of the inputs,
            unless `key_dim` is given.
        intermediate_dim: Integer. F, size of the feed-forward network's inner layer.
        num_key_value_heads: Integer. Number of heads of keys and values. Defaults to H.
        key_dim: Integer. Size of each attention head. Defaults to M / H.
        query_key_normalization: String. "layer" or "rms", to normalize the queries and keys of each
            head, see `MultiHeadAttention`. Defaults to None.
        attention: A name in `keras_transformer.layers.MECHANISMS`, or an `AttentionMechanism` whose
            settings are copied. Defaults to "scaled_dot_product".
        feed_forward: A name in `FEED_FORWARDS`, or a layer whose config is copied. Default "dense".
        feed_forward_options: Dictionary. Arguments of a network given by name. Defaults to none.
        activation: String or function. Activation, see `FeedForward`. Defaults to "relu".
        normalization: String. "layer" or "rms". Defaults to "layer".
        normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to True.
        dropout: Float. Dropout rate of the outputs of each sublayer. Defaults to 0.
        attention_dropout: Float. Dropout rate of the attention weights. Defaults to 0.
        activation_dropout: Float. Dropout rate inside the feed-forward network. Defaults to 0.
        use_bias: Boolean. Whether projections and dense layers have biases. Defaults to True.
        attention_bias: Boolean. Whether the projections of attention have biases. Defaults to
            `use_bias`.
        attention_output_bias: Boolean. Whether the output projection of attention has a bias.
            Defaults to `attention_bias`.
        epsilon: Float. Added to the variance in normalizations. Defaults to 1e-6.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        attention_mask: Boolean, True = attend: `[B, T, T]` or `[B, H, T, T]`.
        return_attention_scores: Boolean. Whether to return weights `[B, H, T, T]`. Default False.
        relations: Integers `[B, T, T]`, for a mechanism that reads relations.
        mask: Boolean `[B, T]`, False for padding. Defaults to the implicit mask of `inputs`.
        inputs_mask: The same; Keras uses this name if there are several tensors.
        training: Boolean. Whether to apply dropout.

    Returns:
        `[B, T, M]`, or a tuple of it and the attention weights.

    >>> x = keras.Input((None, 64))
    >>> y = EncoderBlock(num_heads=4, intermediate_dim=256, dropout=0.1)(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def call(
        self,
        inputs: Any,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        relations: Any = None,
        mask: Any = None,
        inputs_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        outputs, scores = self._apply(
            self.self_attention,
            self.self_attention_residual,
            inputs,
            training,
            attention_mask=attention_mask,
            query_mask=inputs_mask if mask is None else mask,
            return_attention_scores=return_attention_scores,
            relations=relations,
        )
        network, residual = self.feed_forward, self.feed_forward_residual
        outputs, _ = self._apply(network, residual, outputs, training)
        return with_extras(outputs, *scores)


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderBlock(TransformerBlock):
    """Causal self-attention, optional cross-attention, and a feed-forward network.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1; without encoder outputs, the
    block of a language model (Radford et al. 2018, "Improving Language Understanding by Generative
    Pre-Training"). The first call decides whether the block has cross-attention.

    Masking: padding is hidden by the implicit Keras masks of `inputs` and of `encoder_outputs`. The
    output has the mask of `inputs`.

    Args:
        num_heads: Integer. H, number of attention heads; must divide the size M of the inputs,
            unless `key_dim` is given.
        intermediate_dim: Integer. F, size of the feed-forward network's inner layer.
        cross_attention: Mechanism of cross-attention. Defaults to "scaled_dot_product".
        num_key_value_heads: Integer. Number of heads of keys and values. Defaults to H.
        key_dim: Integer. Size of each attention head. Defaults to M / H.
        query_key_normalization: String. "layer" or "rms", to normalize the queries and keys of each
            head, see `MultiHeadAttention`. Defaults to None.
        attention: Mechanism of self-attention: a name in `keras_transformer.layers.MECHANISMS`, or
            an `AttentionMechanism` whose settings are copied. Defaults to "scaled_dot_product".
        feed_forward: A name in `FEED_FORWARDS`, or a layer whose config is copied. Default "dense".
        feed_forward_options: Dictionary. Arguments of a network given by name. Defaults to none.
        activation: String or function. Activation, see `FeedForward`. Defaults to "relu".
        normalization: String. "layer" or "rms". Defaults to "layer".
        normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to True.
        dropout: Float. Dropout rate of the outputs of each sublayer. Defaults to 0.
        attention_dropout: Float. Dropout rate of the attention weights. Defaults to 0.
        activation_dropout: Float. Dropout rate inside the feed-forward network. Defaults to 0.
        use_bias: Boolean. Whether projections and dense layers have biases. Defaults to True.
        attention_bias: Boolean. Whether the projections of attention have biases. Defaults to
            `use_bias`.
        attention_output_bias: Boolean. Whether the output projection of attention has a bias.
            Defaults to `attention_bias`.
        epsilon: Float. Added to the variance in normalizations. Defaults to 1e-6.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        encoder_outputs: `[B, S, N]`, or None.
        attention_mask: Boolean, True = attend, for self-attention: `[B, T, T]` or `[B, H, T, T]`.
        use_causal_mask: Boolean. Whether to hide later positions. Defaults to True.
        return_attention_scores: Boolean. Whether to return the attention weights as well: "self"
            `[B, H, T, T]` and, with encoder outputs, "cross" `[B, H, T, S]`. Defaults to False.
        cache: `KVCache` from `initial_cache` or from the previous call; with it, `inputs` are only
            the next tokens. The updated cache is returned last.
        position: Integer or scalar tensor. Position of the first input in its text. Defaults to the
            length of the cache, or 0.
        cross_attention_cache: Result of the method of this name, in place of `encoder_outputs`.
        mask: Boolean `[B, T]`, False for padding. Defaults to the implicit mask of `inputs`.
        inputs_mask: The same; Keras uses this name if there are several tensors.
        encoder_outputs_mask: Boolean `[B, S]`. Defaults to the implicit mask of `encoder_outputs`.
        training: Boolean. Whether to apply dropout.

    Returns:
        `[B, T, M]`, or a tuple of it, the weights and the updated cache, as far as requested.

    >>> x, encoder_outputs = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = DecoderBlock(num_heads=4, intermediate_dim=256)(x, encoder_outputs)
    >>> keras.Model([x, encoder_outputs], y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        cross_attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        self._cross_mechanism = serialize_settings(make_mechanism(cross_attention))
        self.cross_attention: MultiHeadAttention | None = None

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape | None = None) -> None:
        if encoder_outputs_shape is not None:
            attention = self._make_attention("cross_attention", self._cross_mechanism)
            attention.build(inputs_shape, encoder_outputs_shape)
            residual = self._make_residual("cross_attention_residual")
            residual.build(inputs_shape)
            self.cross_attention, self.cross_attention_residual = attention, residual
        super().build(inputs_shape)

    def call(
        self,
        inputs: Any,
        encoder_outputs: Any = None,
        attention_mask: Any = None,
        use_causal_mask: bool = True,
        return_attention_scores: bool = False,
        cache: KVCache | None = None,
        position: Integer | None = None,
        cross_attention_cache: CrossAttentionCache | None = None,
        mask: Any = None,
        inputs_mask: Any = None,
        encoder_outputs_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        self._check_encoder_outputs(encoder_outputs, cross_attention_cache)
        outputs, extras = self._apply(
            self.self_attention,
            self.self_attention_residual,
            inputs,
            training,
            attention_mask=attention_mask,
            query_mask=inputs_mask if mask is None else mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            cache=cache,
            position=position,
        )
        scores = {"self": extras.pop(0)} if return_attention_scores else None
        if self.cross_attention is not None:
            outputs, cross_scores = self._apply(
                self.cross_attention,
                self.cross_attention_residual,
                outputs,
                training,
                value=encoder_outputs,
                value_mask=encoder_outputs_mask,
                cross_attention_cache=cross_attention_cache,
                return_attention_scores=return_attention_scores,
            )
            if scores is not None:
                scores["cross"] = cross_scores[0]
        network, residual = self.feed_forward, self.feed_forward_residual
        outputs, _ = self._apply(network, residual, outputs, training)
        return with_extras(outputs, scores, *extras)

    def cross_attention_cache(self, encoder_outputs: Any, mask: Any = None) -> CrossAttentionCache:
        """Returns keys and values of `encoder_outputs`; `mask` `[B, S]` is False for padding."""
        if self.cross_attention is None:
            raise UserError(f"DecoderBlock '{self.name}' has no cross-attention.")
        return self.cross_attention.cross_attention_cache(encoder_outputs, mask)

    def _check_encoder_outputs(
        self, encoder_outputs: Any, cross_attention_cache: CrossAttentionCache | None
    ) -> None:
        """Raises if there are encoder outputs and the first call had none, or the reverse."""
        has_encoder = encoder_outputs is not None or cross_attention_cache is not None
        if has_encoder != (self.cross_attention is not None):
            was, now = ("with", "without") if self.cross_attention else ("without", "with")
            problem = f"was first called {was} encoder outputs and is now called {now} them"
            fix = "Use one block for each."
            raise UserError(f"DecoderBlock '{self.name}' {problem}.", fix=fix)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "cross_attention": self._cross_mechanism}
