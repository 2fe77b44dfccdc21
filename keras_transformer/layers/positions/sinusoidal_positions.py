"""Sines and cosines of the position, one pair to a wavelength."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_even, require_known_dim, require_positive
from keras_transformer.layers.positions.scheme import PositionEncoding, register_positions


def position_angles(positions, hidden_dim, max_wavelength):
    """Angles `position / max_wavelength^(2i / hidden_dim)`: float64, one more axis of size hidden_dim/2.

    In float64 because a float32 angle is off by 6e-8 times the position: 0.006 radians at position
    100,000.
    """
    exponents = ops.arange(0, hidden_dim, 2, dtype="float64") / hidden_dim
    wavelengths = ops.power(ops.cast(max_wavelength, "float64"), exponents)
    return ops.expand_dims(ops.cast(positions, "float64"), -1) / wavelengths


@register_positions("sinusoidal")
@keras.saving.register_keras_serializable(package="keras_transformer")
class SinePositionEncoding(PositionEncoding):
    """Adds the sinusoids of Vaswani et al. 2017, "Attention Is All You Need", section 3.5.

    `p(t)[2i] = sin(t / w_i)` and `p(t)[2i + 1] = cos(t / w_i)`, with `w_i = max_wavelength^(2i /
    M)`. Nothing is stored, so any length will do; a shift by k is a rotation: `p(t + k) = R(k)
    p(t)`.

    Args:
        max_wavelength: the base of the wavelengths. The paper's 10,000.

    Call arguments: see `PositionEncoding`.

    Example:

    >>> embedded = keras.Input((None, 64))
    >>> outputs = SinePositionEncoding()(embedded)
    >>> keras.Model(embedded, outputs).output_shape
    (None, None, 64)
    """

    def __init__(self, max_wavelength=10_000, **kwargs):
        super().__init__(**kwargs)
        self.max_wavelength = require_positive("max_wavelength", max_wavelength)

    def build(self, inputs_shape):
        require_even("hidden_dim", require_known_dim("inputs", inputs_shape))
        self.built = True

    def encode(self, positions, hidden_dim):
        angles = position_angles(positions, hidden_dim, self.max_wavelength)  # [..., M/2]
        pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [..., M/2, 2]
        return ops.reshape(pairs, (*ops.shape(pairs)[:-2], hidden_dim))  # [..., M]

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
