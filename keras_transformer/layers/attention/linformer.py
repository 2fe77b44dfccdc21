"""Linformer: attention to a fixed number of projected keys and values."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    at_least_float32,
    is_query_mask,
    register_mechanism,
    require_length,
)


@register_mechanism("linformer")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LinformerAttention(AttentionMechanism):
    """Attention `softmax(q·(Eᵀk) / sqrt(D)) (Fᵀv)` to keys and values projected along their length.

    Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", section 4. Each of `rank`
    projected keys is a learned sum over all positions, so that time and memory grow with T·rank,
    not with T·S. For the same reason causal attention is impossible: no projected key can be
    masked for a query without masking all positions. E and F are two matrices for each layer, which
    the heads share (the paper's "headwise sharing"). Masked keys count as zeros.

    The attention weights that are returned are the weights of the projected keys times F, so that
    they give the context when multiplied with the values. They may be negative and need not sum to
    1.

    Args:
        max_length: Integer. Largest number of keys; more are an error. Default 1024; a model
            configuration passes its own `max_length`.
        rank: Integer. Number of projected keys. Default 128, which is enough for 512 tokens
            according to section 5.1 of the paper, where it is called k.
        projection_initializer: Initializer of the two `[max_length, rank]` matrices. Default
            "glorot_uniform".
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = LinformerAttention(max_length=512, rank=64)(states, states, states)
    >>> keras.Model(states, context).count_params()
    65536
    """

    supports_causal = False
    supports_cache = False
    supports_query_masks = False
    has_max_length = True

    def __init__(
        self,
        max_length: int = 1024,
        rank: int = 128,
        projection_initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.max_length: int = require_positive_integer("max_length", max_length)
        self.rank: int = require_positive_integer("rank", rank)
        self.projection_initializer: Any = keras.initializers.get(projection_initializer)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shape, clone = (self.max_length, self.rank), self.projection_initializer.clone
        # Cloned: an initializer with a seed would give the same values to both.
        self.key_projection: keras.Variable = self.new_weight("key_projection", shape, clone())
        self.value_projection: keras.Variable = self.new_weight("value_projection", shape, clone())

    def call(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        query_offset: int | tf.Tensor = 0,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self.require_support(causal=use_causal_mask, query_masks=is_query_mask(attention_mask))
        problem = (
            f"The attention mechanism 'linformer' has projections for {self.max_length} keys "
            f"(max_length={self.max_length}) and received more"
        )
        fix = "Shorten the input, or train with a larger max_length."
        length = require_length(ops.shape(key)[2], self.max_length, problem, fix)
        key_projection, value_projection = (
            ops.cast(projection[:length], self.compute_dtype)  # [S, R]
            for projection in (self.key_projection, self.value_projection)
        )
        if attention_mask is not None:
            is_visible = ops.swapaxes(attention_mask, 2, 3)  # [B, 1, S, 1]
            key, value = (ops.where(is_visible, x, ops.zeros_like(x)) for x in (key, value))
        keys = tf.einsum("bhsd,sr->bhrd", key, key_projection)
        values = tf.einsum("bhsd,sr->bhrd", value, value_projection)
        scores = tf.matmul(query * query.shape[-1] ** -0.5, keys, transpose_b=True)
        weights = tf.nn.softmax(at_least_float32(scores))  # [B, H, T, R]
        weights = ops.cast(weights, self.compute_dtype)
        context = tf.matmul(self.dropout_layer(weights, training=training), values)
        if not return_attention_scores:
            return context
        weights = tf.einsum("bhtr,sr->bhts", weights, value_projection)
        if attention_mask is not None:
            weights = ops.where(attention_mask, weights, ops.zeros_like(weights))
        return context, weights
