"""Tokens that are copied from the source, beside those that a vocabulary predicts."""

import keras
import tensorflow as tf

from keras_transformer.checks import require_known_width

# The least that a token's share of the copying counts as, so that its logarithm is finite.
_SMALLEST_SHARE = 1e-30


@keras.saving.register_keras_serializable(package="keras_transformer")
class PointerGenerator(keras.layers.Layer):
    """Mixes the distribution over the vocabulary with what the decoder looks at in the source.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.2:
    `P(w) = p·softmax(logits)(w) + (1 - p)·Σ a_i` over the source positions i that hold w; p is a
    sigmoid of the decoder's state. A token that training never had in a target can so come out.
    Source and target must have one vocabulary; being of subwords, it needs no additional words.

    Args:
        kernel_initializer, bias_initializer: of the projection that gives p.

    Call arguments:
        states: `[B, T, M]`, of the decoder.
        logits: `[B, T, V]`.
        weights: `[B, T, S]`, the attention to the source.
        source: integer ids `[B, S]`; or `[B / N, S]` for N hypotheses of each, one after the other.

    Returns:
        log-probabilities `[B, T, V]` in float32 at least, which are logits as good as any.

    Example:

    >>> states, logits = keras.Input((None, 64)), keras.Input((None, 1000))
    >>> weights, source = keras.Input((None, 9)), keras.Input((9,), dtype="int32")
    >>> PointerGenerator()(states, logits, weights, source).shape
    (None, None, 1000)
    """

    def __init__(self, kernel_initializer="glorot_uniform", bias_initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, states_shape, logits_shape, weights_shape, source_shape):
        width = require_known_width("states", states_shape)
        self.kernel = self.add_weight(
            name="kernel", shape=(width, 1), initializer=self.kernel_initializer
        )
        self.bias = self.add_weight(name="bias", shape=(1,), initializer=self.bias_initializer)
        self.built = True

    def call(self, states, logits, weights, source):
        flat = tf.reshape(states, [-1, states.shape[-1]])  # [B·T, M]
        gate = tf.matmul(flat, tf.convert_to_tensor(self.kernel)) + self.bias
        logits = tf.cast(logits, self._output_dtype)
        gate = tf.cast(tf.reshape(gate, [*tf.unstack(tf.shape(states)[:2]), 1]), logits.dtype)
        copied = self._shares(tf.cast(weights, logits.dtype), source, logits.shape[-1])
        generated = tf.nn.log_softmax(logits) + tf.math.log_sigmoid(gate)  # [B, T, V]
        copied = tf.math.log(tf.maximum(copied, _SMALLEST_SHARE)) + tf.math.log_sigmoid(-gate)
        largest = tf.stop_gradient(tf.maximum(generated, copied))
        return largest + tf.math.log(tf.exp(generated - largest) + tf.exp(copied - largest))

    def _shares(self, weights, source, size):
        """How much attention each token of the vocabulary gets: `[B, T, V]`."""
        rows, length = tf.shape(weights)[0], tf.shape(weights)[1]
        hypotheses = rows // tf.maximum(tf.shape(source)[0], 1)
        source = tf.repeat(source, hypotheses, axis=0)  # [B, S]
        places = tf.range(rows)[:, None] * size + tf.cast(source, tf.int32)  # [B, S]
        by_position = tf.transpose(weights, [0, 2, 1])  # [B, S, T]
        sums = tf.math.unsorted_segment_sum(by_position, places, rows * size)  # [B·V, T]
        return tf.transpose(tf.reshape(sums, [rows, size, length]), [0, 2, 1])

    @property
    def _output_dtype(self):
        return keras.backend.result_type(self.compute_dtype, "float32")

    def compute_output_spec(self, states, logits, weights, source):
        return keras.KerasTensor(logits.shape, dtype=self._output_dtype)

    def compute_output_shape(self, states_shape, logits_shape, weights_shape, source_shape):
        return logits_shape

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
