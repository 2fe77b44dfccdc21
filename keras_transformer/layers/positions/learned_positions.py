"""One learned vector for each position."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.checks import require_positive_integer
from keras_transformer.layers.positions.scheme import PositionScheme, register_positions


@register_positions("learned")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositions(PositionScheme):
    """Adds a trained vector for each position.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1.

    There is nothing to add past `max_length`: a longer input is an error, in eager code and in
    graphs. (Only under XLA, which has no run-time errors, must the caller keep `offset` in bounds;
    lengths are known there and checked.)

    Args:
        max_length: number of positions.
        embeddings_initializer: of the `[max_length, M]` table.

    Call arguments: see `PositionScheme`.

    Example:

    >>> embedded = keras.Input((None, 64))
    >>> outputs = LearnedPositions(max_length=512)(embedded)
    >>> keras.Model(embedded, outputs).count_params()
    32768
    """

    is_bounded = True

    def __init__(self, max_length, embeddings_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.max_length = require_positive_integer("max_length", max_length)
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer or keras.initializers.RandomNormal(stddev=0.02)
        )

    def build(self, inputs_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, inputs_shape[-1]),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def encode(self, positions, width):
        return ops.take(self.embeddings, self._checked(positions), axis=0)

    def _checked(self, positions):
        message = (
            f"{type(self).__name__} '{self.name}' has positions 0 to {self.max_length - 1} "
            f"(max_length={self.max_length}) and was asked for another. Shorten the input, train "
            "with a larger max_length, or use SinusoidalPositions, which take any length."
        )
        length = positions.shape[-1]
        if length is not None and length > self.max_length:
            raise ValueError(f"{message} The input has {length} positions.")
        known = tf.get_static_value(positions)
        if known is None:  # in a graph: checked when it runs
            in_range = tf.reduce_all((positions >= 0) & (positions < self.max_length))
            with tf.control_dependencies([tf.debugging.Assert(in_range, [message, positions])]):
                return tf.identity(positions)
        if known.size and (known.min() < 0 or known.max() >= self.max_length):
            raise ValueError(f"{message} The positions run from {known.min()} to {known.max()}.")
        return positions

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
