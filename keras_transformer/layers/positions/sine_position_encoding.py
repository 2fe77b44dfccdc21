"""Sinusoidal position encoding."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_even, require_known_dim, require_positive
from keras_transformer._utils.types import Shape
from keras_transformer.layers.positions.position_encoding import (
    PositionEncoding,
    register_position_encoding,
)


def position_angles(positions: Any, hidden_dim: int, max_wavelength: float) -> tf.Tensor:
    """Returns angles `position / max_wavelength^(2i / hidden_dim)`, float64 `[…, hidden_dim / 2]`.

    A float32 angle would be off by 6e-8 times the position: 0.006 radians at position 100,000.
    """
    exponents = ops.arange(0, hidden_dim, 2, dtype="float64") / hidden_dim
    wavelengths = ops.power(ops.cast(max_wavelength, "float64"), exponents)
    return ops.expand_dims(ops.cast(positions, "float64"), -1) / wavelengths


@register_position_encoding("sinusoidal")
@keras.saving.register_keras_serializable(package="keras_transformer")
class SinePositionEncoding(PositionEncoding):
    """Adds sines and cosines of the position.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.5: `p(t)[2i] = sin(t / w_i)` and
    `p(t)[2i + 1] = cos(t / w_i)`, with `w_i = max_wavelength^(2i / M)`. The layer has no weights
    and accepts any length. A shift by k is a rotation: `p(t + k) = R(k) p(t)`.

    Args:
        max_wavelength: Float. Base of the wavelengths. Default 10,000, as in the paper.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`, with an even M.
        positions: Integers `[B, T]` or `[T]`. Default None: counted from `offset`.
        offset: Integer or scalar tensor. Position of the first input. Default 0.

    >>> embedded = keras.Input((None, 64))
    >>> SinePositionEncoding()(embedded).shape
    (None, None, 64)
    """

    def __init__(self, max_wavelength: float = 10_000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_wavelength: float = require_positive("max_wavelength", max_wavelength)

    def build(self, inputs_shape: Shape) -> None:
        require_even("hidden_dim", require_known_dim("inputs", inputs_shape))

    def encode(self, positions: tf.Tensor, hidden_dim: int) -> tf.Tensor:
        angles = position_angles(positions, hidden_dim, self.max_wavelength)  # […, M/2]
        pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # […, M/2, 2]
        return ops.reshape(pairs, (*ops.shape(pairs)[:-2], hidden_dim))  # […, M]
