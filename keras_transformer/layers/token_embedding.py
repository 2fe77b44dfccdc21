"""Token ids to vectors, and back to logits with the same table."""

import dataclasses
import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_integer, require_positive_integer

# Keras hands tensors from model to loss and metrics as they are, and its own implicit masks ride
# along in the same way.
_ATTRIBUTE = "_keras_transformer_projection"


@dataclasses.dataclass(frozen=True)
class Projection:
    """How logits were made: `states · tableᵀ`.

    Attributes:
        states: `[N, M]`, one row for each row of logits.
        table: `[V, M]`.
        rows: the shape of the logits without their last axis, an int32 tensor of one dimension.
        is_training: whether the gradient is going to be asked for.
        found: what loss and metrics have computed from it, for one another.
    """

    states: Any
    table: Any
    rows: Any
    is_training: bool
    found: dict = dataclasses.field(default_factory=dict)


def remember_projection(logits, projection):
    """Marks logits `[..., V]` with the `Projection` that they came from, and returns them.

    What a graph makes and nobody uses is not computed. So when a loss takes the projection, the
    logits themselves are never there. Any operation on them gives a tensor without the mark.
    """
    setattr(logits, _ATTRIBUTE, projection)
    return logits


def projection_of(logits):
    """Returns the `Projection` that logits were made by, or None if it is not known."""
    return getattr(logits, _ATTRIBUTE, None)


#: So many rows at most are multiplied with the table as it is stored: to transpose 8,000 rows takes
#: about as long as 16 steps of 4 rows gain.
FEW_ROWS = 4


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks tokens up in a table scaled by sqrt(M); in reverse, gives logits from the same table.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.4; Press & Wolf 2017, "Using the
    Output Embedding to Improve Language Models".

    Masking: ids equal to `padding_id` are masked in the output (an implicit Keras mask).

    Args:
        vocabulary_size: number of tokens, V.
        hidden_dim: size of a vector, M.
        padding_id: the id that stands for no token.
        scale: whether vectors are multiplied by sqrt(M), so that they are not drowned by positions
            of size 1.
        embeddings_initializer: of the `[V, M]` table; by default normal with deviation M^-0.5,
            which gives scaled embeddings and logits of about unit size.

    Call arguments:
        inputs: integer ids `[...]`, or with `reverse=True` vectors `[..., M]`. An id outside the
            vocabulary is an error on the CPU; GPUs and XLA, which have no run-time errors, read it
            as some other token or as zeros.
        reverse: whether to give logits `[..., V]`, in float32 at least, instead of vectors `[...,
            M]`. Logits remember what they were made from, see `remember_projection`.

    Example:

    >>> ids = keras.Input((None,), dtype="int32")
    >>> embedding = TokenEmbedding(vocabulary_size=1000, hidden_dim=64)
    >>> logits = embedding(embedding(ids), reverse=True)
    >>> keras.Model(ids, logits).count_params()
    64000
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        padding_id=0,
        scale=True,
        embeddings_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = require_positive_integer("vocabulary_size", vocabulary_size)
        self.hidden_dim = require_positive_integer("hidden_dim", hidden_dim)
        self.padding_id = require_integer("padding_id", padding_id, minimum=0)
        if self.padding_id >= self.vocabulary_size:
            raise ValueError(
                f"`padding_id` must be an id below vocabulary_size={vocabulary_size}; got "
                f"{padding_id}."
            )
        self.scale = bool(scale)
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer or keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
        )
        self.supports_masking = True

    def build(self, inputs_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def call(self, inputs, reverse=False, training=None):
        self._check(inputs, reverse)
        if reverse:
            # Two dimensions: the gradient of a three-dimensional product is built row by row.
            flat = ops.reshape(inputs, (-1, self.hidden_dim))  # [B·T, M]
            table = tf.convert_to_tensor(self.embeddings)
            logits = tf.matmul(flat, table, transpose_b=True)  # [B·T, V]
            logits = ops.cast(logits, self.logits_dtype)
            logits = ops.reshape(logits, (*ops.shape(inputs)[:-1], self.vocabulary_size))
            projection = Projection(flat, table, tf.shape(inputs)[:-1], bool(training))
            return remember_projection(logits, projection)
        embedded = tf.gather(self.embeddings, inputs)  # [..., M]
        return embedded * math.sqrt(self.hidden_dim) if self.scale else embedded

    def output_kernel(self, rows):
        """The table in the layout in which `to_logits` multiplies it fastest without XLA.

        Args:
            rows: how many rows of logits are made at a time, an integer or a scalar tensor.

        Returns:
            `[M, V]`; or `[0, 0]` for a few rows, which do not repay it.
        """
        return tf.cond(
            tf.convert_to_tensor(rows) > FEW_ROWS,
            lambda: tf.transpose(self._table()),
            lambda: tf.zeros([0, 0], self.compute_dtype),
        )

    def to_logits(self, states, kernel=None):
        """The logits `[B, T, V]` of `call(states, reverse=True)`, for one step of many.

        Args:
            states: `[B, T, M]`.
            kernel: from `output_kernel`, made once for all steps; None under XLA.
        """
        rows = tf.reshape(states, [-1, self.hidden_dim])  # [B·T, M]
        logits = self._multiply_few(rows) if kernel is None else self._multiply(rows, kernel)
        shape = tf.concat([tf.shape(states)[:2], [self.vocabulary_size]], axis=0)
        logits = tf.reshape(tf.cast(logits, self.logits_dtype), shape)
        return tf.ensure_shape(logits, [*states.shape[:2], self.vocabulary_size])

    def _multiply(self, rows, kernel):
        """Logits `[R, V]` of rows `[R, M]` with an `output_kernel`."""
        # Rows times a transposed table takes several times as long as these two do.
        return tf.cond(
            tf.size(kernel) > 0,
            lambda: tf.matmul(rows, kernel),
            lambda: tf.transpose(tf.matmul(self._table(), rows, transpose_b=True)),
        )

    def _multiply_few(self, rows):
        """Logits `[R, V]` of rows `[R, M]`; a few of them one by one.

        XLA is twice as fast so: more than one row it multiplies with a copy of the whole table, cut
        into pieces, that is made each time.
        """
        table = self._table()
        return tf.cond(
            tf.shape(rows)[0] <= FEW_ROWS,
            lambda: tf.concat(
                # A slice past the last row has none.
                [tf.matmul(rows[i : i + 1], table, transpose_b=True) for i in range(FEW_ROWS)],
                axis=0,
            ),
            lambda: tf.matmul(rows, table, transpose_b=True),
        )

    def _table(self):
        return tf.cast(self.embeddings, self.compute_dtype)

    @property
    def logits_dtype(self):
        return keras.backend.result_type(self.compute_dtype, "float32")

    def compute_mask(self, inputs, previous_mask=None):
        if keras.backend.is_float_dtype(inputs.dtype):  # called in reverse
            return previous_mask
        return ops.not_equal(inputs, self.padding_id)

    def compute_output_spec(self, inputs, reverse=False, training=None):
        self._check(inputs, reverse)
        return keras.KerasTensor(
            self.compute_output_shape(inputs.shape, reverse),
            dtype=self.logits_dtype if reverse else self.compute_dtype,
        )

    def compute_output_shape(self, inputs_shape, reverse=False):
        if reverse:
            return (*inputs_shape[:-1], self.vocabulary_size)
        return (*inputs_shape, self.hidden_dim)

    def _check(self, inputs, reverse):
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        is_float = keras.backend.is_float_dtype(dtype)
        if reverse and not (
            is_float and len(inputs.shape) > 1 and inputs.shape[-1] == self.hidden_dim
        ):
            raise ValueError(
                f"TokenEmbedding '{self.name}' in reverse takes floating-point vectors "
                f"[..., {self.hidden_dim}]; got {dtype} {tuple(inputs.shape)}."
            )
        if not reverse and is_float:
            raise ValueError(
                f"TokenEmbedding '{self.name}' takes integer ids; got {dtype} "
                f"{tuple(inputs.shape)}. Declare keras.Input(…, dtype='int32'), or pass "
                "reverse=True to get logits from vectors."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "padding_id": self.padding_id,
            "scale": self.scale,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
