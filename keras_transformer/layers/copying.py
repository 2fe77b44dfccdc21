"""What it costs to look at the same place of the source again."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_known_dim, require_not_negative

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
        width = require_known_dim("states", states_shape)
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


@keras.saving.register_keras_serializable(package="keras_transformer")
class CoverageLoss(keras.layers.Layer):
    """Adds a loss for attention that goes where it has been before; passes its inputs on.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.3,
    after Tu et al. 2016, "Modeling Coverage for Neural Machine Translation": for each target token
    `Σ_i min(a_i, c_i)`, where c is the sum of the attention of the tokens before it. The mean over
    the tokens of a batch is added with `add_loss`, in training alone.

    The papers also tell the attention itself what c is. A recurrent decoder can do so, which goes
    from token to token anyway: `RecurrentSeq2Seq` with `coverage_attention`. In a Transformer, and
    in convolutions, the tokens of a target are scored all at once in training, when the attention
    of those before them is not known yet. To wait for it would make them as sequential as a
    recurrent decoder is; there, this loss is all.

    Args:
        weight: of this loss. The paper's 1.

    Call arguments:
        inputs: anything, so that the layer has a place in a functional model.
        weights: attention to the source `[B, T, S]`.
        is_token: boolean `[B, T]`, False for padding of the target.

    Returns:
        `inputs`.

    Example:

    >>> layer = CoverageLoss(weight=1.0)
    >>> twice_the_first = ops.convert_to_tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> _ = layer(ops.zeros(1), twice_the_first, ops.ones((1, 2), dtype="bool"), training=True)
    >>> float(layer.losses[0])
    0.5
    """

    def __init__(self, weight=1.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = require_not_negative("weight", weight)

        self.supports_masking = True

    def build(self, inputs_shape, weights_shape, is_token_shape):
        self.built = True

    def call(self, inputs, weights, is_token, training=None):
        if training:
            attention = ops.cast(weights, "float32")
            covered = ops.cumsum(attention, axis=1) - attention  # [B, T, S], without its own
            again = ops.sum(ops.minimum(attention, covered), axis=-1)  # [B, T]
            is_token = ops.cast(is_token, "float32")
            tokens = ops.maximum(ops.sum(is_token), 1.0)
            self.add_loss(self.weight * ops.sum(again * is_token) / tokens)
        return inputs

    def compute_output_spec(self, inputs, weights, is_token, training=None):
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)

    def compute_output_shape(self, inputs_shape, weights_shape, is_token_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}
