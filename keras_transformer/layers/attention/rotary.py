"""Rotary attention: positions rotate queries and keys."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_even, require_known_dim, require_positive
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import Integer, register_mechanism
from keras_transformer.layers.positions.position_encoding import position_angles


@register_mechanism("rotary")
@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryAttention(ScaledDotProductAttention):
    """Scaled dot-product attention with rotary position embedding (RoPE).

    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.
    Dimension i is paired with i + D/2, not with its neighbor as in the paper: the result is the
    same up to the order of the projections' columns, and no strided copies are needed. `call` takes
    queries and keys from `add_positions`, which rotates them by their positions.

    Args:
        max_wavelength: Float. Base of the wavelengths. Default 10,000, as in the paper.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, 10, 16))
    >>> rotary = RotaryAttention()
    >>> query, key = rotary.add_positions(states, states, offset=0)
    >>> keras.Model(states, rotary(query, key, states)).output_shape
    (None, 4, 10, 16)
    """

    supports_cross = False
    encodes_positions = True

    def __init__(self, max_wavelength: float = 10_000, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.max_wavelength: float = require_positive("max_wavelength", max_wavelength)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_even("key_dim", require_known_dim("query", query_shape))
        super().build(query_shape, key_shape, value_shape)

    def add_positions(
        self, query: tf.Tensor, key: tf.Tensor, offset: Integer
    ) -> tuple[tf.Tensor, tf.Tensor]:
        positions = offset + ops.arange(ops.shape(query)[2], dtype="int32")
        angles = position_angles(positions, query.shape[-1], self.max_wavelength)  # [T, D/2]
        sine, cosine = (ops.cast(f(angles), query.dtype) for f in (ops.sin, ops.cos))

        def rotate(x: tf.Tensor) -> tf.Tensor:  # [B, H, T, D]
            first, second = ops.split(x, 2, axis=-1)  # each [B, H, T, D/2]
            rotated = [first * cosine - second * sine, second * cosine + first * sine]
            return ops.concatenate(rotated, axis=-1)

        return rotate(query), rotate(key)
