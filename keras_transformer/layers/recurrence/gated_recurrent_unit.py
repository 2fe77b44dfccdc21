"""The GRU cell."""

import keras
import tensorflow as tf

from keras_transformer.layers.recurrence.cell import RecurrentCell, register_cell


@register_cell("gru")
@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedRecurrentUnit(RecurrentCell):
    """A state that one gate updates, and another lets be forgotten in what is proposed.

    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
    Machine Translation", but for one thing: the reset gate acts on the state after its product with
    the weights, as in cuDNN, so that a step needs one product alone.

    Arguments and call arguments: see `RecurrentCell`. A state is an output.

    Example:

    >>> (output,) = GatedRecurrentUnit(16)(tf.zeros([2, 8]), (tf.zeros([2, 16]),))
    >>> output.shape
    TensorShape([2, 16])
    """

    gates = 3
    parts = 1

    def build(self, inputs_shape, state_shape=None):
        super().build(inputs_shape, state_shape)
        self.recurrent_bias = self.add_weight(
            name="recurrent_bias", shape=(self.units,), initializer="zeros"
        )

    def read(self):
        bias = tf.cast(self.recurrent_bias, self.compute_dtype)[None]
        return {**super().read(), "recurrent_bias": bias}

    def advance(self, projected, state, weights):
        (output,) = state
        sizes = [2 * self.units, self.units]
        recurrent = tf.matmul(output, weights["recurrent_kernel"])  # [B, 3·U]
        gates_of_inputs, proposed_by_inputs = tf.split(projected, sizes, axis=-1)
        gates_of_state, proposed_by_state = tf.split(recurrent, sizes, axis=-1)
        reset, keep = tf.split(tf.sigmoid(gates_of_inputs + gates_of_state), 2, axis=-1)
        proposed = tf.tanh(
            proposed_by_inputs + reset * (proposed_by_state + weights["recurrent_bias"])
        )
        return (proposed + keep * (output - proposed),)
