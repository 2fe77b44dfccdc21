"""Relative positions by rotating queries and keys."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_even, require_positive
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.positions.sinusoidal_positions import position_angles


@register_mechanism("rotary")
@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryAttention(ScaledDotProductAttention):
    """Turns queries and keys by their positions, so that products depend on the distance.

    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding". Dimension i is
    paired with i + D/2, not with its neighbor as in the paper: the same up to a reordering of the
    projections' columns, and free of strided copies.

    Args:
        max_wavelength: the base of the wavelengths. The paper's 10,000.

    Other arguments and call arguments: see `AttentionMechanism`. Queries and keys must have gone
    through `place`, as `MultiHeadAttention` does.

    Example:

    >>> states = keras.Input((4, 10, 16))
    >>> rotary = RotaryAttention()
    >>> query, key = rotary.place(states, states, offset=0)
    >>> keras.Model(states, rotary(query, key, states)).output_shape
    (None, 4, 10, 16)
    """

    supports_cross = False
    encodes_positions = True

    def __init__(self, max_wavelength=10_000, **kwargs):
        super().__init__(**kwargs)
        self.max_wavelength = require_positive("max_wavelength", max_wavelength)

    def build(self, query_shape, key_shape, value_shape):
        require_even("key_dim", query_shape[-1])
        super().build(query_shape, key_shape, value_shape)

    def place(self, query, key, offset):
        width = query.shape[-1]
        positions = offset + ops.arange(ops.shape(query)[2], dtype="int32")
        angles = position_angles(positions, width, self.max_wavelength)  # [T, D/2]
        sine, cosine = (ops.cast(f(angles), query.dtype) for f in (ops.sin, ops.cos))

        def rotate(x):  # [B, H, T, D]
            first, second = ops.split(x, 2, axis=-1)  # each [B, H, T, D/2]
            turned = [first * cosine - second * sine, second * cosine + first * sine]
            return ops.concatenate(turned, axis=-1)

        return rotate(query), rotate(key)

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
