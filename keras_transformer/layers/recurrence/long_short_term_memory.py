"""The LSTM cell."""

import keras
import tensorflow as tf

from keras_transformer.layers.recurrence.cell import RecurrentCell, register_cell


@register_cell("lstm")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LongShortTermMemory(RecurrentCell):
    """A memory cell that gates let in, keep and let out.

    Hochreiter & Schmidhuber 1997, "Long Short-Term Memory", with the forget gate of Gers et al.
    2000, "Learning to Forget". That gate's bias begins at 1, so that a new cell keeps what it has
    (Jozefowicz et al. 2015, "An Empirical Exploration of Recurrent Network Architectures").

    Arguments and call arguments: see `RecurrentCell`. A state is an output and a memory.

    Example:

    >>> inputs, state = tf.zeros([2, 8]), (tf.zeros([2, 16]), tf.zeros([2, 16]))
    >>> output, memory = LongShortTermMemory(16)(inputs, state)
    >>> output.shape
    TensorShape([2, 16])
    """

    gates = 4
    parts = 2

    def initial_bias(self, shape, dtype=None):
        units = self.units
        return tf.concat([tf.ones([units], dtype), tf.zeros([3 * units], dtype)], axis=0)

    def advance(self, projected, state, weights):
        output, memory = state
        gates = projected + tf.matmul(output, weights["recurrent_kernel"])  # [B, 4·U]
        # One operation for the three that are gates; each is dear in a loop.
        opened, proposed = tf.split(gates, [3 * self.units, self.units], axis=-1)
        keep, enter, leave = tf.split(tf.sigmoid(opened), 3, axis=-1)  # each [B, U]
        memory = keep * memory + enter * tf.tanh(proposed)
        return leave * tf.tanh(memory), memory
