"""Base of the text modules: a model and its tokenizers as graph functions of strings."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.export.signatures import Signature, declared_signatures
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.text import SpecialIds, Tokenizer

#: Tensors by name: inputs or outputs.
Tensors: TypeAlias = dict[str, tf.Tensor]
#: A stored weight: a variable of any floating-point dtype, or one of 8-bit integers.
StoredWeight: TypeAlias = "tf.Variable | QuantizedWeight"

#: Maximum number of bytes of a token: SentencePiece's pieces have at most 16 characters.
BYTES_PER_TOKEN = 64
#: Larger weights stay variables. With smaller ones as constants, a graph and every shape that XLA
#: compiles it for stay small, also for a model with a large hidden dimension.
LARGEST_CONSTANT_BYTES = 2**18


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLimits:
    """Limits that bound time and memory of a request with any strings.

    Args:
        tokens: Integer. Maximum number of tokens of a text, the end token included. The rest is
            ignored; text after 64 times as many bytes is not tokenized.
        tokens_at_once: Integer. Maximum number of tokens, padding included, of the sub-batches in
            which a batch is processed. Default 4096.
        rows_at_once: Integer. Maximum number of rows of a sub-batch. Default 128.
    """

    tokens: int
    tokens_at_once: int = 4096
    rows_at_once: int = 128

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            require_positive_integer(field.name, getattr(self, field.name))

    def cut(
        self,
        texts: tf.Tensor,
        keep: Literal["start", "end"] = "start",
        bytes_per_token: int = BYTES_PER_TOKEN,
    ) -> tf.Tensor:
        """Returns the part of each text `[B]` that can be within the limit of tokens.

        Args:
            texts: strings `[B]`.
            keep: which end of a long text is kept. Default "start".
            bytes_per_token: maximum number of bytes of a token. Default 64.
        """
        size = self.tokens * bytes_per_token
        first = tf.zeros_like(texts, tf.int32)
        if keep == "end":
            first = tf.maximum(tf.strings.length(texts) - size, 0)
        return tf.strings.substr(texts, first, tf.fill(tf.shape(first), size))


class TextModule(tf.Module):
    """A model with its tokenizers, as graph functions from strings to strings or numbers.

    A subclass for each kind of model declares its signatures with the decorator `signature`.

    Args:
        trained: a `TrainedModel`.
        stored_dtype: dtype of the stored weights; "int8" for 8-bit integers, see `QuantizedWeight`.
            Default: the model's own variables are used.

    Attributes:
        functions: the `GraphFunction` of each signature, by name.
        limits: the `TextLimits`, chosen by the subclass.
        special_ids: the `SpecialIds` of the tokenizers.
    """

    model: Any
    functions: "dict[str, GraphFunction]"
    limits: TextLimits

    def __init__(self, trained: TrainedModel, stored_dtype: str | None = None) -> None:
        super().__init__()
        # Not tracked: a SavedModel that tracks Keras objects loads in Python and nowhere else.
        object.__setattr__(self, "model", trained.model)
        self.source_tokenizer: Tokenizer = trained.tokenizers.source
        self.target_tokenizer: Tokenizer = trained.tokenizers.target
        self.special_ids: SpecialIds = trained.tokenizers.special_ids
        self.stored: list[StoredWeight] | None = None
        if stored_dtype is not None:
            self.stored = [_store(weight.value, stored_dtype) for weight in trained.model.weights]
        functions = {
            record.name: GraphFunction(self, record)
            for record in declared_signatures(type(self))
            if record.requires is None or record.requires(trained.model)
        }
        # Not tracked: saved as signatures alone.
        object.__setattr__(self, "functions", functions)

    def weights(self, as_constants: bool = False) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which the model's layers read the stored weights."""
        if self.stored is None:
            return contextlib.nullcontext()
        return stored_weights(self.model, self.stored, as_constants)

    def ids(self, tokenizer: Tokenizer, texts: tf.Tensor, maximum: int) -> tf.RaggedTensor:
        """Returns the ids of texts, ragged `[B, None]`, at most `maximum` a row, without END."""
        return tokenizer.tokenize(self.limits.cut(texts))[:, :maximum]

    def source_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of source texts as the model reads them, within the limit of tokens."""
        tokenizer = self.source_tokenizer
        return tokenizer.with_template(tokenizer.tokenize(texts), self.limits.tokens)

    def with_end(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns ragged ids with the end token after each row."""
        ends = tf.fill([ids.nrows(), 1], tf.constant(self.special_ids.end, ids.dtype))
        return tf.concat([ids, ends], axis=1)

    def with_start(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns ragged ids with the start token before each row."""
        starts = tf.fill([ids.nrows(), 1], tf.constant(self.special_ids.start, ids.dtype))
        return tf.concat([starts, ids], axis=1)

    def padded(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns ragged ids as a padded tensor `[B, T]`."""
        return ids.to_tensor(self.special_ids.padding)

    def in_sub_batches(
        self,
        function: Callable[[dict[str, Any]], Tensors],
        columns: Mapping[str, Any],
        lengths: tf.Tensor,
        empty: Mapping[str, tf.Tensor],
    ) -> Tensors:
        """Applies a function to sub-batches of rows of similar length; a graph operation.

        Memory is bounded by the largest sub-batch, and sorting by length keeps padding small.

        Args:
            function: returns a dictionary like `empty` for one like `columns` with fewer rows.
            columns: tensors or ragged tensors of B rows by name.
            lengths: integers `[B]`, the number of tokens of each row.
            empty: the result for no rows: tensors of 0 rows by name.
        """
        limits = self.limits
        lengths = tf.cast(lengths, tf.int32)
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        batch_size = tf.shape(order)[0]

        def process(start: tf.Tensor, results: Any) -> tuple[tf.Tensor, Any]:
            longest = tf.maximum(lengths[order[start]], 1)
            count = tf.clip_by_value(limits.tokens_at_once // longest, 1, limits.rows_at_once)
            rows = order[start : start + count]
            part = function({name: tf.gather(column, rows) for name, column in columns.items()})
            grown = {name: tf.concat([results[name], part[name]], axis=0) for name in results}
            return start + count, grown

        shapes = {name: tf.TensorShape([None, *value.shape[1:]]) for name, value in empty.items()}
        _, results = tf.while_loop(
            lambda start, results: start < batch_size,
            process,
            (tf.constant(0), dict(empty)),
            shape_invariants=(tf.TensorShape([]), shapes),
            parallel_iterations=1,
        )
        positions = tf.math.invert_permutation(order)
        return {name: tf.gather(value, positions) for name, value in results.items()}


class GraphFunction:
    """A graph function of named tensors, traced on first use.

    Args:
        module: the `TextModule` whose method it calls.
        record: the `Signature`.
    """

    def __init__(self, module: TextModule, record: Signature) -> None:
        self.module = module
        self.record = record

    @functools.cached_property
    def concrete(self) -> Any:
        """The concrete function that TensorFlow saves."""
        method = getattr(self.module, self.record.method)

        def call(**tensors: tf.Tensor) -> Tensors:
            with self.module.weights():
                return method(**tensors)

        specs = {
            name: tf.TensorSpec([None] * len(each.axes), each.dtype, name)
            for name, each in self.record.inputs.items()
        }
        return tf.function(call, autograph=False).get_concrete_function(**specs)

    def __call__(self, **tensors: tf.Tensor) -> Tensors:
        return self.concrete(**tensors)


class QuantizedWeight(tf.Module):
    """A weight as integers from -127 to 127 and a scale for each row.

    A value is its integer times the scale of its row. The largest value of each row is exact, the
    error of the others is at most half of the scale.

    Args:
        value: floating-point `[…, N]`, with at least two axes.

    >>> weight = QuantizedWeight(tf.constant([[0.5, -1.27], [0.0, 0.0]]))
    >>> weight.integers.numpy()
    array([[  50, -127],
           [   0,    0]], dtype=int8)
    >>> weight.dequantized(tf.float32).numpy().round(3)
    array([[ 0.5 , -1.27],
           [ 0.  ,  0.  ]], dtype=float32)
    """

    def __init__(self, value: tf.Tensor) -> None:
        super().__init__()
        value = tf.cast(value, tf.float32)
        largest = tf.reduce_max(tf.abs(value), axis=-1, keepdims=True)  # [..., 1]
        scale = tf.where(largest > 0, largest / 127, 1.0)
        integers = tf.cast(tf.round(value / scale), tf.int8)
        self.integers: tf.Variable = tf.Variable(integers, trainable=False, name="integers")
        self.scale: tf.Variable = tf.Variable(scale, trainable=False, name="scale")

    def dequantized(self, dtype: Any, as_constants: bool = False) -> tf.Tensor:
        """Returns the weight in a floating-point dtype; see `stored_weights` for the arguments."""
        read = _constant if as_constants else tf.convert_to_tensor
        scale = tf.cast(read(self.scale), tf.float32)
        return tf.cast(tf.cast(read(self.integers), tf.float32) * scale, dtype)


def _store(value: tf.Tensor, dtype: str) -> StoredWeight:
    """Returns a weight in the dtype in which it is stored.

    With "int8", vectors remain float32: they are small, and biases and scales need the precision.
    """
    if dtype != "int8":
        return tf.Variable(tf.cast(value, dtype), trainable=False)
    if len(value.shape) < 2:
        return tf.Variable(tf.cast(value, tf.float32), trainable=False)
    return QuantizedWeight(value)


def stored_weights(
    model: keras.Model, stored: Sequence[StoredWeight], as_constants: bool = False
) -> keras.StatelessScope:
    """Returns a context in which the layers of a model read other variables than their own.

    Args:
        model: a Keras model.
        stored: a `StoredWeight` for each of `model.weights`.
        as_constants: whether small weights become constants of the traced graph. XLA checks every
            variable before each call, which takes longer than encoding a short sentence.
    """
    weights = zip(model.weights, stored, strict=True)
    return keras.StatelessScope(
        state_mapping=[
            (weight, _read(value, weight.dtype, as_constants)) for weight, value in weights
        ]
    )


def _read(value: StoredWeight, dtype: str, as_constants: bool) -> tf.Tensor:
    if isinstance(value, QuantizedWeight):
        return value.dequantized(dtype, as_constants)
    return tf.cast(_constant(value) if as_constants else value, dtype)


def _constant(variable: tf.Variable) -> tf.Variable | tf.Tensor:
    """Returns the present value of a variable if it is small, else the variable."""
    if variable.dtype.size * variable.shape.num_elements() > LARGEST_CONSTANT_BYTES:
        return variable
    with tf.init_scope():  # outside the graph, where the value is available
        value = variable.numpy()
    return tf.constant(value)


def source_limits(model: keras.Model, limits: TextLimits | None) -> TextLimits:
    """Returns the limits of source texts: those given, or the maximum length of the model."""
    config = model.config
    end = min(config.length_limits(config.source_fields).values(), default=None)
    longest = config.max_length if end is None else min(config.max_length, end)
    return check_limits(limits or TextLimits(tokens=longest), end, end)


def check_limits(limits: TextLimits, positions: int | None, maximum: int | None) -> TextLimits:
    """Returns the limits if texts of that length fit the positions that the model has."""
    if maximum is not None and limits.tokens > maximum:
        raise UserError(
            f"The model has learned {positions} positions: texts may have at most {maximum} "
            f"tokens, not {limits.tokens}."
        )
    return limits


def is_blank(texts: tf.Tensor) -> tf.Tensor:
    """Returns whether each text holds only white space, boolean `[B]`."""
    return tf.strings.regex_full_match(texts, r"[\s\pZ\x0b\x1c-\x1f\x{85}]*")
