"""Copying from the source (pointer-generator) and the coverage loss."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_known_dim, require_not_negative
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.types import Shape

# Smallest probability of copying a token, so that its logarithm is finite.
_SMALLEST_PROBABILITY = 1e-30


@keras.saving.register_keras_serializable(package="keras_transformer")
class PointerGenerator(ConfiguredLayer):
    """Mixes the distribution over the vocabulary with the attention to the source tokens.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.2:
    `P(w) = p·softmax(logits)(w) + (1 - p)·Σ a_i` over the source positions i that hold w; p is a
    sigmoid of the decoder's state. Source and target must share a vocabulary.

    Args:
        kernel_initializer: Initializer of the kernel that gives p. Default "glorot_uniform".
        bias_initializer: Initializer of its bias. Default "zeros".
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        states: Decoder states `[B, T, M]`.
        logits: `[B, T, V]`.
        weights: Attention weights on the source, `[B, T, S]`.
        source: Integer ids `[B, S]`, or `[B / N, S]` for N consecutive hypotheses of each row.

    Returns:
        Log-probabilities `[B, T, V]` in float32 or float64, which can be used as logits.

    >>> states, logits = keras.Input((None, 64)), keras.Input((None, 1000))
    >>> weights, source = keras.Input((None, 9)), keras.Input((9,), dtype="int32")
    >>> PointerGenerator()(states, logits, weights, source).shape
    (None, None, 1000)
    """

    def __init__(
        self,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer: Any = keras.initializers.get(kernel_initializer)
        self.bias_initializer: Any = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(
        self, states_shape: Shape, logits_shape: Shape, weights_shape: Shape, source_shape: Shape
    ) -> None:
        hidden_dim = require_known_dim("states", states_shape)
        new = self.new_weight
        self.kernel: keras.Variable = new("kernel", (hidden_dim, 1), self.kernel_initializer)
        self.bias: keras.Variable = new("bias", (1,), self.bias_initializer)

    def call(
        self, states: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor, source: tf.Tensor
    ) -> tf.Tensor:
        flat = tf.reshape(states, [-1, states.shape[-1]])  # [B·T, M]
        gate = tf.matmul(flat, tf.convert_to_tensor(self.kernel)) + self.bias
        logits = tf.cast(logits, self._output_dtype)
        gate = tf.cast(tf.reshape(gate, [*tf.unstack(tf.shape(states)[:2]), 1]), logits.dtype)
        copied = self._sum_by_token(tf.cast(weights, logits.dtype), source, logits.shape[-1])
        generated = tf.nn.log_softmax(logits) + tf.math.log_sigmoid(gate)  # [B, T, V]
        copied = tf.math.log(tf.maximum(copied, _SMALLEST_PROBABILITY)) + tf.math.log_sigmoid(-gate)
        largest = tf.stop_gradient(tf.maximum(generated, copied))
        return largest + tf.math.log(tf.exp(generated - largest) + tf.exp(copied - largest))

    def _sum_by_token(self, weights: tf.Tensor, source: tf.Tensor, size: int) -> tf.Tensor:
        """Returns the attention weight of each token of the vocabulary, `[B, T, V]`."""
        rows, length = tf.shape(weights)[0], tf.shape(weights)[1]
        hypotheses = rows // tf.maximum(tf.shape(source)[0], 1)
        source = tf.repeat(source, hypotheses, axis=0)  # [B, S]
        segments = tf.range(rows)[:, None] * size + tf.cast(source, tf.int32)  # [B, S]
        by_position = tf.transpose(weights, [0, 2, 1])  # [B, S, T]
        sums = tf.math.unsorted_segment_sum(by_position, segments, rows * size)  # [B·V, T]
        return tf.transpose(tf.reshape(sums, [rows, size, length]), [0, 2, 1])

    @property
    def _output_dtype(self) -> str:
        return keras.backend.result_type(self.compute_dtype, "float32")

    def compute_output_spec(
        self, states: Any, logits: Any, weights: Any, source: Any
    ) -> keras.KerasTensor:
        return keras.KerasTensor(logits.shape, dtype=self._output_dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class CoverageLoss(ConfiguredLayer):
    """Adds a loss for attending to the same source positions again; returns its inputs unchanged.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", section 2.3,
    after Tu et al. 2016, "Modeling Coverage for Neural Machine Translation": for each target token
    `Σ_i min(a_i, c_i)`, where c is the sum of the attention weights of the previous tokens. The
    mean over the tokens of a batch is added with `add_loss`, in training only. In the papers c is
    also an input of the attention: see `coverage_attention` of `RecurrentSeq2Seq`.

    Args:
        weight: Float. Weight of the loss. Default 1, as in the paper.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Any tensor, so that the layer can be part of a functional model.
        weights: Attention weights on the source, `[B, T, S]`.
        is_token: Boolean `[B, T]`, False for padding of the target.
        training: Boolean. Whether the loss is added.

    >>> layer = CoverageLoss(weight=1.0)
    >>> weights = ops.convert_to_tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> _ = layer(ops.zeros(1), weights, ops.ones((1, 2), dtype="bool"), training=True)
    >>> float(layer.losses[0])
    0.5
    """

    def __init__(self, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight: float = require_not_negative("weight", weight)
        self.supports_masking = True

    def call(
        self,
        inputs: tf.Tensor,
        weights: tf.Tensor,
        is_token: tf.Tensor,
        training: bool | None = None,
    ) -> tf.Tensor:
        if training:
            attention = ops.cast(weights, "float32")
            coverage = ops.cumsum(attention, axis=1) - attention  # [B, T, S], of previous tokens
            repeated = ops.sum(ops.minimum(attention, coverage), axis=-1)  # [B, T]
            is_token = ops.cast(is_token, "float32")
            tokens = ops.maximum(ops.sum(is_token), 1.0)
            self.add_loss(self.weight * ops.sum(repeated * is_token) / tokens)
        return inputs

    def compute_output_spec(
        self, inputs: Any, weights: Any, is_token: Any, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, dtype=inputs.dtype)
