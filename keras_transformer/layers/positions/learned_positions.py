"""One learned vector for each position."""

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_known_dim, require_positive_integer
from keras_transformer.layers.positions.scheme import PositionEncoding, register_positions


@register_positions("learned")
@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEmbedding(PositionEncoding):
    """Adds a trained vector for each position.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1.

    There is nothing to add past `max_length`: a longer input is an error, in eager code and in
    graphs. (Only under XLA, which has no run-time errors, must the caller keep `offset` in bounds;
    lengths are known there and checked.)

    Args:
        max_length: number of positions.
        embeddings_initializer: of the `[max_length, M]` table.

    Call arguments: see `PositionEncoding`.

    Example:

    >>> embedded = keras.Input((None, 64))
    >>> outputs = PositionEmbedding(max_length=512)(embedded)
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
            shape=(self.max_length, require_known_dim("inputs", inputs_shape)),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def check_length(self, length, offset):
        offset = tf.get_static_value(offset)
        if length is not None and (offset or 0) + length > self.max_length:
            raise ValueError(f"{self._message()} The input ends at {(offset or 0) + length - 1}.")

    def encode(self, positions, hidden_dim):
        known = tf.get_static_value(positions)
        if known is None:  # in a graph: checked when it runs
            in_range = tf.reduce_all((positions >= 0) & (positions < self.max_length))
            check = tf.debugging.Assert(in_range, [self._message(), positions])
            with tf.control_dependencies([check]):
                return tf.gather(self.embeddings, positions)
        if known.size and (known.min() < 0 or known.max() >= self.max_length):
            raise ValueError(
                f"{self._message()} The positions run from {known.min()} to {known.max()}."
            )
        return tf.gather(self.embeddings, positions)

    def _message(self):
        return (
            f"{type(self).__name__} '{self.name}' has positions 0 to {self.max_length - 1} "
            f"(max_length={self.max_length}) and was asked for another. Shorten the input, train "
            "with a larger max_length, or use SinePositionEncoding, which take any length."
        )

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
