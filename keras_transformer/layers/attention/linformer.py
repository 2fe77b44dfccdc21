"""Linformer: attention to a fixed number of projected keys and values."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    AttentionMechanism,
    at_least_float32,
    register_mechanism,
    require_length,
)


@register_mechanism("linformer")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LinformerAttention(AttentionMechanism):
    """Attention `softmax(q·(Eᵀk) / sqrt(D)) (Fᵀv)` to keys and values projected along their length.

    Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", section 4. Each of `rank`
    projected keys is a learned sum over all positions, so that time and memory grow with T·rank,
    not with T·S, and causal attention is impossible. E and F are two matrices for each layer, which
    the heads share (the paper's "headwise sharing"). Masked keys count as zeros.

    The attention weights that are returned are those of the projected keys times F, so that they
    give the context when multiplied with the values; they may be negative and need not sum to 1.

    Args:
        max_length: Integer. Largest number of keys; models pass their own. Default 1024.
        rank: Integer. Number of projected keys, k in the paper. Default 128, which is enough for
            512 tokens according to its section 5.1.
        projection_initializer: Initializer of E and F. Default "glorot_uniform".
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

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        query, key, value, mask = inputs[:4]
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
        if mask is not None:
            is_visible = ops.swapaxes(mask, 2, 3)  # [B, 1, S, 1]
            key, value = (ops.where(is_visible, x, ops.zeros_like(x)) for x in (key, value))
        keys = tf.einsum("bhsd,sr->bhrd", key, key_projection)
        values = tf.einsum("bhsd,sr->bhrd", value, value_projection)
        scores = tf.matmul(query * query.shape[-1] ** -0.5, keys, transpose_b=True)
        weights = tf.nn.softmax(at_least_float32(scores))  # [B, H, T, R]
        weights = ops.cast(weights, self.compute_dtype)
        context = tf.matmul(self.dropout_layer(weights, training=inputs.training), values)
        if not inputs.return_attention_scores:
            return context, None
        weights = tf.einsum("bhtr,sr->bhts", weights, value_projection)
        if mask is not None:
            weights = ops.where(mask, weights, ops.zeros_like(weights))
        return context, weights
