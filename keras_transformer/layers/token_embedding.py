"""Token embedding, which is also the output layer with tied weights."""

import dataclasses
import math
from typing import Any, Self

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_integer,
    require_positive_integer,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.types import Shape

#: Up to this number of rows, the table is multiplied in the layout in which it is stored:
#: transposing a table of 8,000 rows takes about as much time as it saves in 16 steps of 4 rows.
FEW_ROWS = 4

_PROJECTION = "_keras_transformer_logit_projection"


@dataclasses.dataclass(frozen=True, eq=False)
class LogitProjection:
    """The inputs of an output layer that computed logits as `states · tableᵀ`.

    The logits `[B, T, V]` are by far the largest tensor of a training step. A loss that knows how
    they were computed can do without them: see `losses/fused_cross_entropy.py`.

    1. `TokenEmbedding`, as output layer, attaches a `LogitProjection` to the logits, as Keras does
       with implicit masks. An operation on the logits gives a tensor without it.
    2. In a graph, the loss computes from `LogitProjection.of(logits)` only, so that nothing depends
       on the logits and TensorFlow never computes them.
    3. Loss and metrics need the same sums over tokens. The first of them stores its result in
       `LogitProjection.results`, the others reuse it.

    Attributes:
        states: `[N, M]`, one row for each row of logits; `[N, M + 1]` with a bias, the last is 1.
        table: `[V, M]`, or `[V, M + 1]` with the bias as the last column.
        leading_shape: The shape of the logits without their last axis, an int32 tensor `[rank]`.
        is_training: Whether the gradient will be needed.
        results: Sums over tokens, for reuse.
    """

    states: tf.Tensor
    table: tf.Tensor
    leading_shape: tf.Tensor
    is_training: bool
    results: list[Any] = dataclasses.field(default_factory=list)

    def attach_to(self, logits: tf.Tensor) -> tf.Tensor:
        """Attaches the projection to the logits `[…, V]` and returns them."""
        setattr(logits, _PROJECTION, self)
        return logits

    @classmethod
    def of(cls, logits: Any) -> Self | None:
        """Returns the projection that is attached to logits, or None."""
        return getattr(logits, _PROJECTION, None)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(ConfiguredLayer):
    """Looks up vectors of tokens; in reverse, computes logits with the same table.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.4; Press & Wolf 2017, "Using the
    Output Embedding to Improve Language Models".

    Masking: ids equal to `padding_id` are masked in the output (an implicit Keras mask).

    Args:
        vocabulary_size: Integer. Number V of tokens.
        hidden_dim: Integer. Size M of a vector.
        padding_id: Integer. The id of padding. Default 0.
        scale: Boolean. Whether vectors are multiplied by sqrt(M). Default True.
        output_bias: Boolean. Whether a bias for each token is added to the logits. Default False.
        embeddings_initializer: Initializer of the `[V, M]` table. Default None: normal with
            standard deviation M^-0.5, which gives scaled embeddings and logits of about unit size.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Integer ids `[…]`, or with `reverse=True` vectors `[…, M]`. An id outside of the
            vocabulary is an error on the CPU; GPUs and XLA return another vector or zeros.
        reverse: Boolean. Whether to compute logits. Default False.
        training: Boolean. Whether the gradient of the logits will be needed.

    Returns:
        Vectors `[…, M]`; in reverse logits `[…, V]` in at least float32, with a `LogitProjection`.

    >>> ids = keras.Input((None,), dtype="int32")
    >>> embedding = TokenEmbedding(vocabulary_size=1000, hidden_dim=64)
    >>> logits = embedding(embedding(ids), reverse=True)
    >>> keras.Model(ids, logits).count_params()
    64000
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        padding_id: int = 0,
        scale: bool = True,
        output_bias: bool = False,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size: int = require_positive_integer("vocabulary_size", vocabulary_size)
        self.hidden_dim: int = require_positive_integer("hidden_dim", hidden_dim)
        self.padding_id: int = require_integer("padding_id", padding_id, minimum=0)
        if self.padding_id >= self.vocabulary_size:
            expected = f"an id below vocabulary_size={vocabulary_size}"
            raise ArgumentError("padding_id", expected, padding_id)
        self.scale: bool = bool(scale)
        self.output_bias: bool = require_boolean("output_bias", output_bias)
        self.embeddings_initializer: Any = keras.initializers.get(
            embeddings_initializer or keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
        )
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        shape, initializer = (self.vocabulary_size, self.hidden_dim), self.embeddings_initializer
        self.embeddings: keras.Variable = self.new_weight("embeddings", shape, initializer)
        self.bias: keras.Variable | None = None
        if self.output_bias:
            self.bias = self.new_weight("output_bias", shape[:1], "zeros")

    def call(
        self, inputs: tf.Tensor, reverse: bool = False, training: bool | None = None
    ) -> tf.Tensor:
        self._check_inputs(inputs, reverse)
        if reverse:
            # Two dimensions: the gradient of a three-dimensional product is built row by row.
            states = ops.reshape(inputs, (-1, self.hidden_dim))  # [B·T, M]
            table = tf.convert_to_tensor(self.embeddings)
            if self.bias is not None:
                # As one more dimension, so that a loss needs to know only states and table.
                states = tf.concat([states, tf.ones_like(states[:, :1])], axis=1)
                bias = tf.cast(self.bias, table.dtype)[:, tf.newaxis]
                table = tf.concat([table, bias], axis=1)
            logits = tf.matmul(states, table, transpose_b=True)  # [B·T, V]
            logits = ops.cast(logits, self.logits_dtype)
            logits = ops.reshape(logits, (*ops.shape(inputs)[:-1], self.vocabulary_size))
            projection = LogitProjection(states, table, tf.shape(inputs)[:-1], bool(training))
            return projection.attach_to(logits)
        embedded = tf.gather(self.embeddings, inputs)  # […, M]
        return embedded * math.sqrt(self.hidden_dim) if self.scale else embedded

    def output_kernel(self, rows: int | tf.Tensor) -> tf.Tensor:
        """Returns the table `[M, V]`, the layout with which `to_logits` is fastest without XLA.

        For a few `rows` of logits the result is empty, `[0, 0]`, because transposing the table
        would take longer than it saves.
        """
        return tf.cond(
            tf.convert_to_tensor(rows) > FEW_ROWS,
            lambda: tf.transpose(self._table()),
            lambda: tf.zeros([0, 0], self.compute_dtype),
        )

    def to_logits(self, states: tf.Tensor, kernel: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the logits `[B, T, V]` of `call(states, reverse=True)`, for a decoding step.

        `kernel` is the result of `output_kernel`, computed once for all steps; None under XLA.
        """
        rows = tf.reshape(states, [-1, self.hidden_dim])  # [B·T, M]
        if kernel is None:
            logits = self._multiply_few(rows)
        else:  # `matmul(rows, table, transpose_b=True)` takes several times as long as this
            logits = tf.cond(
                tf.size(kernel) > 0,
                lambda: tf.matmul(rows, kernel),
                lambda: tf.transpose(tf.matmul(self._table(), rows, transpose_b=True)),
            )
        shape = tf.concat([tf.shape(states)[:2], [self.vocabulary_size]], axis=0)
        logits = tf.cast(logits, self.logits_dtype)
        if self.bias is not None:
            logits += tf.cast(self.bias, self.logits_dtype)
        logits = tf.reshape(logits, shape)
        return tf.ensure_shape(logits, [*states.shape[:2], self.vocabulary_size])

    def _multiply_few(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns logits `[R, V]` of rows `[R, M]`; a few rows are multiplied one by one.

        XLA copies the whole table at each step to multiply several rows with it.
        """
        table = self._table()
        return tf.cond(
            tf.shape(rows)[0] <= FEW_ROWS,
            lambda: tf.concat(
                # A slice after the last row is empty.
                [tf.matmul(rows[i : i + 1], table, transpose_b=True) for i in range(FEW_ROWS)],
                axis=0,
            ),
            lambda: tf.matmul(rows, table, transpose_b=True),
        )

    def _table(self) -> tf.Tensor:
        return tf.cast(self.embeddings, self.compute_dtype)

    @property
    def logits_dtype(self) -> str:
        """Dtype of the logits, at least float32."""
        return keras.backend.result_type(self.compute_dtype, "float32")

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if keras.backend.is_float_dtype(inputs.dtype):  # called in reverse
            return previous_mask
        return ops.not_equal(inputs, self.padding_id)

    def compute_output_spec(
        self, inputs: Any, reverse: bool = False, training: bool | None = None
    ) -> keras.KerasTensor:
        self._check_inputs(inputs, reverse)
        shape = self.compute_output_shape(inputs.shape, reverse)
        return keras.KerasTensor(shape, dtype=self.logits_dtype if reverse else self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        if reverse:
            return (*inputs_shape[:-1], self.vocabulary_size)
        return (*inputs_shape, self.hidden_dim)

    def _check_inputs(self, inputs: Any, reverse: bool) -> None:
        is_float, shape = keras.backend.is_float_dtype(inputs.dtype), tuple(inputs.shape)
        got = f"got {keras.backend.standardize_dtype(inputs.dtype)} {shape}."
        if reverse and not (is_float and len(shape) > 1 and shape[-1] == self.hidden_dim):
            vectors = f"floating-point vectors […, {self.hidden_dim}]"
            raise UserError(f"TokenEmbedding '{self.name}' in reverse takes {vectors}; {got}")
        if not reverse and is_float:
            raise UserError(
                f"TokenEmbedding '{self.name}' takes integer ids; {got}",
                fix="Declare keras.Input(…, dtype='int32'), or pass reverse=True to compute logits "
                "from vectors.",
            )
