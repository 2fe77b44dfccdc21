"""What a convolutional decoder attends to: keys that know their surroundings, values that also
know the token itself."""

import keras
import tensorflow as tf

from keras_transformer.checks import require_positive_integer
from keras_transformer.layers.gated_convolution import HALF


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalMemory(keras.layers.Layer):
    """Keys and values of an encoder's outputs and the embeddings that it began with.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning": keys are the outputs, values
    the sum of outputs and embeddings (section 3.3). Section 3.4: a mean of m vectors is smaller
    than they are, so values are larger by sqrt(m); and as each of the decoder's layers attends to
    the source, in training the outputs' gradients are divided by the number of those layers.

    Masking: padding, told by the implicit Keras mask of `states`, does not count in m. The keys
    carry the mask on.

    Args:
        readers: number of layers that will attend.

    Call arguments:
        states: `[B, S, M]`, the encoder's outputs.
        embedded: `[B, S, M]`.

    Returns:
        keys and values, each `[B, S, M]`.

    Example:

    >>> states, embedded = keras.Input((None, 64)), keras.Input((None, 64))
    >>> keys, values = ConvolutionalMemory(readers=4)(states, embedded)
    >>> values.shape
    (None, None, 64)
    """

    def __init__(self, readers=1, **kwargs):
        super().__init__(**kwargs)
        self.readers = require_positive_integer("readers", readers)
        self.supports_masking = True

    def build(self, states_shape, embedded_shape):
        self.built = True

    def call(self, states, embedded, states_mask=None, training=None):
        keys = states
        if training:  # as before, but for the gradient
            share = states / self.readers
            keys = share + tf.stop_gradient(states - share)
        if states_mask is None:
            tokens = tf.cast(tf.shape(states)[1], tf.float32)
        else:
            tokens = tf.reduce_sum(tf.cast(states_mask, tf.float32), axis=1)[:, None, None]
        return keys, (keys + embedded) * (HALF * tf.cast(tf.sqrt(tokens), states.dtype))

    def compute_output_spec(self, states, embedded, **kwargs):
        return tuple(keras.KerasTensor(states.shape, dtype=self.compute_dtype) for _ in range(2))

    def get_config(self):
        return {**super().get_config(), "readers": self.readers}
