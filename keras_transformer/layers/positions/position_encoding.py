"""Registry and base of the position encodings, and the sinusoidal one."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_even,
    require_integer,
    require_known_dim,
    require_positive,
    require_rank,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer._utils.registry import Kind, register
from keras_transformer._utils.types import Shape

#: The registered position encodings by name.
POSITION_ENCODINGS: dict[str, type["PositionEncoding"]] = {}


def register_position_encoding(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `PositionEncoding` by `name`."""
    return register(POSITION_ENCODINGS, name)


def make_position_encoding(
    name: str, max_length: int, options: Mapping[str, Any] | None = None, dtype: Any = None
) -> "PositionEncoding":
    """Returns a new position encoding by registered name.

    Args:
        name: A name in `POSITION_ENCODINGS`.
        max_length: Number of positions, for an encoding that has a limit.
        options: Further arguments of the encoding. Defaults to none.
        dtype: Dtype policy of the layer.
    """
    kind = POSITION_ENCODINGS[require_choice("positions", name, POSITION_ENCODINGS)]
    limit = {"max_length": max_length} if kind.has_max_length else {}
    try:
        return kind(name="positions", dtype=dtype, **limit, **(options or {}))
    except (TypeError, ValueError) as error:
        if not options:
            raise
        expected = f"options of the position encoding {name!r}"
        raise ArgumentError("positions_options", expected, options, fix=f"{error}") from error


class PositionEncoding(ConfiguredLayer):
    """Base of the layers that add an encoding of the position to each embedding.

    An encoding is one file in this folder: it registers a name and implements `encode`. Encodings
    that change the attention scores (Shaw, rotary, ALiBi) are attention mechanisms.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        positions: Integers `[B, T]` or `[T]`, for positions that are not consecutive: packed
            documents that each start at 0, depths in a tree. Default None: counted from `offset`.
        offset: Integer or scalar tensor. Position of the first input, without `positions`. Default
            0; cached decoding passes the number of previous steps.
    """

    #: Name by which the encoding is registered.
    registered_name: ClassVar[str | None] = None
    #: Whether the positions are limited by a constructor argument `max_length`.
    has_max_length: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self, inputs: tf.Tensor, positions: tf.Tensor | None = None, offset: int | tf.Tensor = 0
    ) -> tf.Tensor:
        require_rank("inputs", inputs, {3: "B, T, M"})
        if positions is None:
            self.check_length(inputs.shape[1], offset)
            positions = offset + ops.arange(ops.shape(inputs)[1], dtype="int32")  # [T]
        else:
            require_rank("positions", positions, {1: "T", 2: "B, T"})
        encoded = self.encode(positions, inputs.shape[-1])  # [T, M] or [B, T, M]
        return inputs + ops.cast(encoded, inputs.dtype)

    def encode(self, positions: tf.Tensor, hidden_dim: int) -> tf.Tensor:
        """Returns the encodings `[…, M]`, M = `hidden_dim`, of integer positions `[…]`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `encode`.")

    def check_length(self, length: int | None, offset: int | tf.Tensor) -> None:
        """Raises a `UserError` if `length` positions from `offset` are known to be too many."""
        if self.has_max_length:
            raise NotImplementedError(f"{type(self).__name__} must implement `check_length`.")

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape


@register_position_encoding("sinusoidal")
@keras.saving.register_keras_serializable(package="keras_transformer")
class SinePositionEncoding(PositionEncoding):
    """Adds sines and cosines of the position.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.5: `p(t)[2i] = sin(t / w_i)` and
    `p(t)[2i + 1] = cos(t / w_i)`, with `w_i = max_wavelength^(2i / M)`. The layer has no weights
    and accepts any length. A shift by k is a rotation: `p(t + k) = R(k) p(t)`.

    Args:
        max_wavelength: Float. Base of the wavelengths. Default 10,000, as in the paper.
        interleaved: Boolean. Whether sines and cosines alternate, as in the paper; if not, all
            sines precede the cosines, as in tensor2tensor and Marian. Default True.
        first_position: Integer. Number that is added to positions. Default 0; fairseq's positions
            begin with 2.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`, with an even M.
        positions: Integers `[B, T]` or `[T]`. Default None: counted from `offset`.
        offset: Integer or scalar tensor. Position of the first input. Default 0.

    >>> embedded = keras.Input((None, 64))
    >>> SinePositionEncoding()(embedded).shape
    (None, None, 64)
    """

    def __init__(
        self,
        max_wavelength: float = 10_000,
        interleaved: bool = True,
        first_position: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_wavelength: float = require_positive("max_wavelength", max_wavelength)
        self.interleaved: bool = require_boolean("interleaved", interleaved)
        self.first_position: int = require_integer("first_position", first_position, minimum=0)

    def build(self, inputs_shape: Shape) -> None:
        require_even("hidden_dim", require_known_dim("inputs", inputs_shape))

    def encode(self, positions: tf.Tensor, hidden_dim: int) -> tf.Tensor:
        positions = positions + self.first_position
        angles = position_angles(positions, hidden_dim, self.max_wavelength)  # […, M/2]
        if not self.interleaved:
            return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)  # […, M]
        pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # […, M/2, 2]
        return ops.reshape(pairs, (*ops.shape(pairs)[:-2], hidden_dim))  # […, M]


def position_angles(positions: Any, hidden_dim: int, max_wavelength: float) -> tf.Tensor:
    """Returns angles `position / max_wavelength^(2i / hidden_dim)`, float64 `[…, hidden_dim / 2]`.

    A float32 angle would be off by 6e-8 times the position: 0.006 radians at position 100,000.
    """
    exponents = ops.arange(0, hidden_dim, 2, dtype="float64") / hidden_dim
    wavelengths = ops.power(ops.cast(max_wavelength, "float64"), exponents)
    return ops.expand_dims(ops.cast(positions, "float64"), -1) / wavelengths
