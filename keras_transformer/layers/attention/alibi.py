"""ALiBi: scores are lowered in proportion to the distance between query and key."""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    Integer,
    at_least_float32,
    register_mechanism,
    relative_positions,
)


def head_slopes(num_heads: int) -> list[float]:
    """Returns the paper's slopes: for n = 2^k heads 2^(-8/n), 2^(-16/n), …, 2^-8.

    For any other number, the list has the slopes of the next lower power of two, followed by every
    second slope of the next higher one.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (head + 1) / below) for head in range(below)]
    between = [2 ** (-4 * (2 * head + 1) / below) for head in range(num_heads - below)]
    return slopes + between


@register_mechanism("alibi")
@keras.saving.register_keras_serializable(package="keras_transformer")
class AlibiAttention(ScaledDotProductAttention):
    """Scaled dot-product attention with linear biases (ALiBi).

    Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", section 3: each score is lowered by the distance between query and key, before
    or after the query, times a fixed slope of the head.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = AlibiAttention()(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).count_params()
    0
    """

    supports_cross = False
    encodes_positions = True

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        # Half precision cannot represent large distances exactly.
        scores = at_least_float32(super().compute_scores(query, key, query_offset))
        slopes = ops.convert_to_tensor(head_slopes(query.shape[1]), dtype=scores.dtype)  # [H]
        distance = ops.abs(relative_positions(query, key, query_offset))  # [T, S]
        biases = ops.reshape(slopes, (-1, 1, 1)) * ops.cast(distance, scores.dtype)  # [H, T, S]
        return scores - biases  # [B, H, T, S]
