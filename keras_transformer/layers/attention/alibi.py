"""Relative positions as a penalty that grows with distance."""

import math

import keras
from keras import ops

from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import distances, register_mechanism


def head_slopes(num_heads):
    """The paper's slopes: for n = 2^k heads 2^(-8/n), 2^(-16/n), …, 2^-8.

    For other numbers, those of the power of two below, then every second of the power above.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (head + 1) / below) for head in range(below)]
    between = [2 ** (-4 * (2 * head + 1) / below) for head in range(num_heads - below)]
    return slopes + between


@register_mechanism("alibi")
@keras.saving.register_keras_serializable(package="keras_transformer")
class AlibiAttention(ScaledDotProductAttention):
    """Lowers each score by the distance between query and key, times a slope fixed for the head.

    Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation". Without a causal mask, keys after the query are lowered alike.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = AlibiAttention()(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).count_params()
    0
    """

    supports_cross = False
    encodes_positions = True

    def score(self, query, key, query_offset):
        scores = super().score(query, key, query_offset)
        # Distances are whole numbers, of which half precision holds few.
        scores = ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))
        slopes = ops.convert_to_tensor(head_slopes(query.shape[1]), dtype=scores.dtype)  # [H]
        distance = ops.cast(ops.abs(distances(query, key, query_offset)), scores.dtype)  # [T, S]
        return scores - ops.reshape(slopes, (-1, 1, 1)) * distance  # [B, H, T, S]
