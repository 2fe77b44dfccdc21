"""A recurrent layer that reads from both ends."""

import keras
import tensorflow as tf

from keras_transformer.checks import require_even, require_positive_integer
from keras_transformer.layers.recurrence.cell import make_cell
from keras_transformer.layers.recurrence.running import run_over_time


@keras.saving.register_keras_serializable(package="keras_transformer")
class BidirectionalRecurrence(keras.layers.Layer):
    """Two cells, one from left to right and one from right to left, side by side.

    Schuster & Paliwal 1997, "Bidirectional Recurrent Neural Networks". Both run in one loop.

    Masking: where the implicit Keras mask of the inputs is False, a cell keeps its state, so that
    padding before or after a sequence is as if it were not there.

    Args:
        width: M, the size of the outputs, half of it from each direction.
        cell: "lstm" or "gru".

    Call arguments:
        inputs: `[B, S, N]`.

    Returns:
        `[B, S, M]`.

    Example:

    >>> inputs = keras.Input((None, 32))
    >>> outputs = BidirectionalRecurrence(64, cell="gru")(inputs)
    >>> keras.Model(inputs, outputs).output_shape
    (None, None, 64)
    """

    def __init__(self, width, cell="lstm", **kwargs):
        super().__init__(**kwargs)
        self.width = require_even("width", require_positive_integer("width", width))
        self.cell = cell
        self.forward, self.backward = (
            make_cell(cell, self.width // 2, name=name, dtype=self.dtype_policy)
            for name in ("forward", "backward")
        )
        self.supports_masking = True

    def build(self, inputs_shape):
        self.forward.build(inputs_shape)
        self.backward.build(inputs_shape)
        self.built = True

    def call(self, inputs, mask=None):
        inputs = tf.transpose(inputs, [1, 0, 2])  # [S, B, N]
        weights = [cell.read() for cell in (self.forward, self.backward)]
        projected = _both_ways(
            self.forward.project(inputs, weights[0]), self.backward.project(inputs, weights[1])
        )  # [S, 2, B, G·U]
        given = (projected,)
        if mask is not None:
            is_token = tf.transpose(mask)[..., None]  # [S, B, 1]
            given = (projected, _both_ways(is_token, is_token))
        stacked = tf.nest.map_structure(lambda *pair: tf.stack(pair), *weights)

        def advance(time, given, state):
            new = self.forward.advance(given[0], state, stacked)
            if mask is not None:
                new = tuple(tf.where(given[1], *pair) for pair in zip(new, state, strict=True))
            return new[:1], new

        units = self.width // 2
        zeros = tf.zeros([2, tf.shape(inputs)[1], units], projected.dtype)
        zeros = tf.ensure_shape(zeros, [2, inputs.shape[1], units])
        state = (zeros,) * self.forward.parts
        (outputs,), _ = run_over_time(advance, given, state, [projected.dtype])  # [S, 2, B, U]
        outputs = tf.concat([outputs[:, 0], tf.reverse(outputs[:, 1], [0])], axis=-1)
        return tf.transpose(outputs, [1, 0, 2])  # [B, S, M]

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.width)

    def get_config(self):
        return {**super().get_config(), "width": self.width, "cell": self.cell}


def _both_ways(forward, backward):
    """Two sequences `[S, …]`, the second from its end, as `[S, 2, …]`."""
    return tf.stack([forward, tf.reverse(backward, [0])], axis=1)
