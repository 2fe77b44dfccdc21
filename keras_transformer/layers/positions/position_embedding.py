"""Learned position embedding."""

from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_known_dim, require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.positions.position_encoding import (
    PositionEncoding,
    register_position_encoding,
)


@register_position_encoding("learned")
@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEmbedding(PositionEncoding):
    """Adds a trained vector for each position.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1. A position of
    `max_length` or more is an error, except under XLA, which has no run-time errors.

    Args:
        max_length: Integer. Number of positions.
        embeddings_initializer: Initializer of the table. Default None: normal, deviation 0.02.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        positions: Integers `[B, T]` or `[T]`. Default None: counted from `offset`.
        offset: Integer or scalar tensor. Position of the first input. Default 0.

    >>> embedded = keras.Input((None, 64))
    >>> outputs = PositionEmbedding(max_length=512)(embedded)
    >>> keras.Model(embedded, outputs).count_params()
    32768
    """

    has_max_length = True

    def __init__(self, max_length: int, embeddings_initializer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_length: int = require_positive_integer("max_length", max_length)
        initializer = embeddings_initializer or keras.initializers.RandomNormal(stddev=0.02)
        self.embeddings_initializer: Any = keras.initializers.get(initializer)

    def build(self, inputs_shape: Shape) -> None:
        shape = (self.max_length, require_known_dim("inputs", inputs_shape))
        initializer = self.embeddings_initializer
        self.embeddings: keras.Variable = self.new_weight("embeddings", shape, initializer)

    def check_length(self, length: int | None, offset: int | tf.Tensor) -> None:
        offset = tf.get_static_value(offset) or 0
        if length is not None and offset + length > self.max_length:
            raise self._error(f"the input ends at position {offset + length - 1}")

    def encode(self, positions: tf.Tensor, hidden_dim: int) -> tf.Tensor:
        known = tf.get_static_value(positions)
        if known is None:  # in a graph: checked when it runs
            in_range = tf.reduce_all((positions >= 0) & (positions < self.max_length))
            message = str(self._error("the input has others"))
            check = tf.debugging.Assert(in_range, [message, positions])
            with tf.control_dependencies([check]):
                return tf.gather(self.embeddings, positions)
        if known.size and (known.min() < 0 or known.max() >= self.max_length):
            raise self._error(f"the input has positions {known.min()} to {known.max()}")
        return tf.gather(self.embeddings, positions)

    def _error(self, received: str) -> UserError:
        return UserError(
            f"{type(self).__name__} '{self.name}' has positions 0 to {self.max_length - 1} "
            f"(max_length={self.max_length}); {received}.",
            fix="Shorten the input, train with a larger max_length, or use SinePositionEncoding, "
            "which accepts any length.",
        )
