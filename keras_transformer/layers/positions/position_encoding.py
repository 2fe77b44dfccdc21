"""Base class and registry of the position encodings."""

from collections.abc import Callable
from typing import Any, ClassVar

import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_rank
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.registry import Kind, register
from keras_transformer._utils.types import Shape

#: The registered position encodings by name.
POSITION_ENCODINGS: dict[str, type["PositionEncoding"]] = {}


def register_position_encoding(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers a `PositionEncoding` by `name`."""
    return register(POSITION_ENCODINGS, name)


def make_position_encoding(name: str, **options: Any) -> "PositionEncoding":
    """Returns a new position encoding of a registered name; `options` are its arguments."""
    return POSITION_ENCODINGS[require_choice("positions", name, POSITION_ENCODINGS)](**options)


class PositionEncoding(ConfiguredLayer):
    """Base of the layers that add an encoding of the position to each embedding.

    An encoding is one file in this folder: it registers a name and implements `encode`. Encodings
    that change the attention scores (Shaw, rotary, ALiBi) are attention mechanisms, in
    `layers/attention/`.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        positions: Integers `[B, T]` or `[T]`, for positions that are not consecutive: packed
            documents that each start at 0, depths in a tree. Default None: counted from `offset`.
        offset: Integer or scalar tensor. Position of the first input; cached decoding passes the
            number of previous steps. Ignored if `positions` is given. Default 0.

    Returns:
        `[B, T, M]`.
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
