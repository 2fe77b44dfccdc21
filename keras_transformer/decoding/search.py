"""Base classes of the searches, their result, and operations on the rows of hypotheses.

B is the number of inputs, N the number of hypotheses of each and T the longest length. The N
hypotheses of an input are consecutive rows: models see R = B·N rows, searches compare `[B, N]`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_not_negative,
    require_rank,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.decoding.constraints import (
    Candidates,
    Constraint,
    LengthLimits,
    LogitsProcessor,
)
from keras_transformer.decoding.search_settings import LENGTH_NORMALIZATIONS
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.tokenizer import Ids

#: Ids of the source, alone or in a dictionary of everything that the model's `encode` takes.
Source: TypeAlias = Ids | Mapping[str, Any]
#: Entries of a model's state that have a row for each input, not for each hypothesis.
_SHARED = ("memory", "source", "kernels")
#: State of a model between two steps.
State: TypeAlias = dict[str, Any]
#: Variables of a search's loop by name; "length" and "is_done" are among them.
Loop: TypeAlias = dict[str, Any]
#: `(ids [R], state) -> (logits [R, V], attention [R, S] or None, state)`.
Step: TypeAlias = Callable[[tf.Tensor, State], tuple[tf.Tensor, tf.Tensor | None, State]]


class Hypotheses(NamedTuple):
    """N hypotheses for each of B inputs, best first.

    Attributes:
        ids: int32 `[B, N, T]`. Tokens with the end id, without the start id, then padding.
        lengths: int32 `[B, N]`. Number of those tokens; 0 for a missing hypothesis, where an input
            has fewer than N.
        score: float32 `[B, N]`. Score that the search ranked by; -inf for a missing hypothesis.
        log_probability: float32 `[B, N]`. Log-probability under the model, without a forced prefix;
            0 for a missing hypothesis.
        alignment: int32 `[B, N, T]`. Source position that each token attended to most, then zeros;
            None unless the search has `with_alignment`.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    score: tf.Tensor
    log_probability: tf.Tensor
    alignment: tf.Tensor | None = None


class SearchStart(NamedTuple):
    """Everything that a search's loop starts with, for R = B·N rows of N hypotheses of B inputs."""

    step: Step
    state: State
    processor: LogitsProcessor
    special_ids: SpecialIds
    batch_size: tf.Tensor  # B, an int32 scalar
    capacity: tf.Tensor  # T, the maximum length with the prefix, an int32 scalar
    source_mask: tf.Tensor | None  # [B, S], or None if the search needs no attention


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Base class of searches, which find token sequences that are likely under a model.

    A search uses the model's `encode` (if it has a source), `initial_state`, `step`,
    `position_limit` and `special_ids` (if it has them), and nothing else of the model. It runs in
    the graph with core TensorFlow operations: eagerly, inside a `tf.function`, plain or
    compiled by XLA, with the same result. It stops when every row is done. Rows do not influence
    each other.

    A new search is a new file `<name>_search.py` in this package with a frozen dataclass that is
    decorated with `register_search("<name>")` and implements `__call__`.

    Args:
        length_penalty: Exponent of `length_divisor`, by which scores are normalized: larger values
            prefer longer hypotheses, 0 ranks by log-probability. Defaults to 0.6, as in Vaswani et
            al. 2017.
        length_normalization: What the exponent is applied to: "gnmt", (5 + length) / 6, as in Wu et
            al. 2016; or "length", the length itself, as in Hugging Face's and fairseq's searches.
        lengths: Minimum and maximum lengths. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order.
        with_alignment: Whether to return the source position that each token attended to most.
    """

    #: Name by which the search is registered.
    registered_name: ClassVar[str]
    #: Number of hypotheses that the search returns for each input.
    n_best: ClassVar[int] = 1

    length_penalty: float = 0.6
    length_normalization: str = "gnmt"
    lengths: LengthLimits = dataclasses.field(default_factory=LengthLimits)
    constraints: tuple[Constraint, ...] = ()
    with_alignment: bool = False

    def __post_init__(self) -> None:
        require_not_negative("length_penalty", self.length_penalty)
        require_choice("length_normalization", self.length_normalization, LENGTH_NORMALIZATIONS)
        require_boolean("with_alignment", self.with_alignment)
        given = self.constraints
        constraints = (given,) if isinstance(given, Constraint) else tuple(given)
        object.__setattr__(self, "constraints", constraints)
        if not isinstance(self.lengths, LengthLimits):
            raise ArgumentError("lengths", "a LengthLimits", self.lengths)
        for each in constraints:
            if not isinstance(each, Constraint):
                raise ArgumentError("constraints", "constraints such as NoRepeatNgram(3)", each)

    def length_divisor(self, length: tf.Tensor) -> tf.Tensor:
        """Returns the number that scores of hypotheses of a length are divided by."""
        return length_divisor(length, self.length_penalty, self.length_normalization)

    @property
    def call_inputs(self) -> dict[str, tf.TensorSpec]:
        """`tf.TensorSpec`s of the further inputs of `function`, by name, such as a seed."""
        return {}

    @property
    def needs_attention(self) -> bool:
        """True if the search needs the model's attention to the source."""
        return self.with_alignment

    @property
    def num_hypotheses(self) -> int:
        """Number of hypotheses of an input that the search follows at once."""
        return 1

    def with_n_best(self, n: int) -> Self:
        """Returns the search that returns the `n` best hypotheses of each input."""
        if n != 1:
            raise ArgumentError("n", "1: this search follows one hypothesis", n)
        return self

    def __call__(
        self, model: Any, source: Source | None = None, prefix: Ids | None = None
    ) -> Hypotheses:
        """Returns the hypotheses of a batch.

        Args:
            model: A `Transformer`, a `LanguageModel` or any object with their methods.
            source: int32 `[B, S]`. Padded or ragged source ids, for a model that has a source; or a
                dictionary of everything that its `encode` takes, with the ids as "source".
            prefix: int32 `[B, P]`. Ids padded at the end, or ragged, without the start id, that the
                hypotheses must begin with. For a language model, the prompt.
        """
        raise NotImplementedError

    def function(self, model: Any, jit_compile: bool = False) -> Any:
        """Returns the search over one model as a `tf.function` of the source ids `[B, S]`.

        For a model without a source, it is a function of the prompt `[B, P]`. Further arguments are
        the model's `further_inputs`, if it has any, and `call_inputs`, such as the seed of a
        `SamplingSearch`, an int64 scalar. The function is traced once for all shapes. XLA compiles
        it for each shape, so pad inputs to a few shapes with `jit_compile`.

        Args:
            model: A `Transformer`, a `LanguageModel` or any object with their methods.
            jit_compile: Whether XLA compiles the function.
        """
        has_source = hasattr(model, "encode")
        names = ["source" if has_source else "prefix", *getattr(model, "further_inputs", ())]

        def search(*given: tf.Tensor) -> Hypotheses:
            read, others = given[: len(names)], given[len(names) :]
            inputs = dict(zip(names, read, strict=True))
            inputs = {"source": inputs} if has_source else inputs
            return self(model, **inputs, **dict(zip(self.call_inputs, others, strict=True)))

        specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]
        specs += self.call_inputs.values()
        return tf.function(search, specs, jit_compile=jit_compile, autograph=False)

    def prepare(self, model: Any, source: Source | None, prefix: Ids | None) -> SearchStart:
        """Encodes the source and returns what the loop starts with; arguments as in `__call__`."""
        special_ids = model.special_ids if hasattr(model, "special_ids") else SpecialIds()
        padding = special_ids.padding
        has_source = hasattr(model, "encode")
        if has_source and source is None:
            raise UserError("This model has a source: give its ids as `source`.")
        if not has_source and source is not None:
            raise UserError("This model has no source: give the prompt as `prefix`.")
        if source is None and prefix is None:
            raise UserError("A model without a source needs a prompt: give it as `prefix`.")
        if source is None and self.needs_attention:
            why = "for `with_alignment` or `coverage_penalty`"
            raise UserError(f"This search needs attention to a source, {why}; the model has none.")
        source_ids, further = None, {}
        if source is not None:
            source_ids = require_rank("source", _as_ids(ids_of(source), padding), {2: "B, S"})
            if isinstance(source, Mapping):
                further = {name: value for name, value in source.items() if name != "source"}
        prefix_ids, prefix_lengths = _as_prefix(prefix, source_ids, padding)
        read = prefix_ids if source_ids is None else source_ids
        shape = tf.shape(read)
        batch_size, longest_source = shape[0], shape[1]

        # Everything but the number of rows follows from shapes, which XLA knows when it compiles.
        capacity = self.lengths.maxima(longest_source)
        if prefix_ids is not None:
            capacity += tf.shape(prefix_ids)[1]
        minima, maxima = self.lengths.bounds(_count_tokens(read, padding))
        limit = getattr(model, "position_limit", None)
        if limit is not None:
            problem = f"`prefix` must be shorter than the {limit} positions of the model."
            tf.debugging.assert_less(prefix_lengths, limit, problem)
            capacity = tf.minimum(capacity, limit)
            maxima = tf.minimum(maxima, limit - prefix_lengths)
            minima = tf.minimum(minima, maxima)

        source_mask = None
        if source_ids is None:
            state = model.initial_state(batch_size, max_length=capacity)
        else:
            encoded = model.encode(source_ids, **further)
            state = model.initial_state(encoded, max_length=capacity)
            source_mask = encoded.mask if self.needs_attention else None
        rows: Any = (minima, maxima, prefix_ids, prefix_lengths)
        times = self.num_hypotheses
        if times > 1:
            state = map_rows(lambda rows: tf.repeat(rows, times, axis=0), state)
            rows = [None if each is None else tf.repeat(each, times, axis=0) for each in rows]
        processor = LogitsProcessor(self.constraints, *rows, special_ids=special_ids)

        step = self.step_function(model)
        return SearchStart(step, state, processor, special_ids, batch_size, capacity, source_mask)

    def step_function(self, model: Any) -> Step:
        """Returns a model's `step` in the form that a search's loop calls."""

        def step(ids: tf.Tensor, state: State) -> tuple[tf.Tensor, tf.Tensor | None, State]:
            if not self.needs_attention:
                logits, state = model.step(ids, state)
                return tf.cast(logits, tf.float32), None, state
            logits, attention, state = model.step(ids, state, return_attention=True)
            return tf.cast(logits, tf.float32), tf.cast(attention, tf.float32), state

        return step


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequentialSearch(Search):
    """Base class of searches in which each row chooses one token at a time and keeps it."""

    def choose(
        self, processor: LogitsProcessor, logits: tf.Tensor, loop: Loop, seed: Any
    ) -> Candidates:
        """Returns the next token of each row by its logits `[R, V]`: `Candidates` of shape `[R]`.

        `loop` has the tokens so far, "ids", and their "length"; `seed` is the argument of `run`.
        """
        raise NotImplementedError

    def run(
        self, model: Any, source: Source | None, prefix: Ids | None, seed: Any = None
    ) -> Hypotheses:
        """Returns the hypotheses of a batch; `seed` is passed to `choose`."""
        start = self.prepare(model, source, prefix)
        loop = self.advance(start, self.begin(start), start.capacity, seed)
        return self.finish(start, loop)

    def begin(self, start: SearchStart) -> Loop:
        """Returns the variables of the loop before the first token."""
        rows = start.batch_size * self.num_hypotheses
        loop = {
            "length": tf.constant(0),
            "ids": tf.fill([rows, start.capacity], start.special_ids.padding),
            "latest": tf.fill([rows], start.special_ids.start),
            "is_done": tf.fill([rows], False),
            "score": tf.zeros([rows]),
            "log_probability": tf.zeros([rows]),
            "state": start.state,
        }
        if self.with_alignment:
            loop["alignment"] = tf.zeros([rows, start.capacity], tf.int32)
        return loop

    def advance(
        self, start: SearchStart, loop: Loop, until: int | tf.Tensor, seed: Any = None
    ) -> Loop:
        """Returns the variables of the loop when every row is done or has `until` tokens."""
        processor = start.processor
        padding, end = start.special_ids.padding, start.special_ids.end

        def step(loop: Loop) -> Loop:
            length, is_done = loop["length"], loop["is_done"]
            logits, attention, state = start.step(loop["latest"], loop["state"])
            choice = self.choose(processor, logits, loop, seed)
            chosen = tf.where(is_done, padding, choice.tokens)
            is_forced = processor.is_forced(length)
            costs_nothing = is_done | is_forced
            new = {
                "length": length + 1,
                "ids": write_column(loop["ids"], length, chosen),
                "latest": chosen,
                "is_done": is_done | ((chosen == end) & ~is_forced),
                "score": loop["score"] + tf.where(costs_nothing, 0.0, choice.scores),
                "log_probability": loop["log_probability"]
                + tf.where(costs_nothing, 0.0, choice.log_probabilities),
                "state": state,
            }
            if self.with_alignment:
                places = tf.argmax(attention, axis=-1, output_type=tf.int32)
                places = tf.where(is_done, 0, places)
                new["alignment"] = write_column(loop["alignment"], length, places)
            return new

        return repeat_step(step, loop, until)

    def finish(self, start: SearchStart, loop: Loop) -> Hypotheses:
        """Returns the hypotheses of the loop's variables, complete or not."""
        lengths = tf.reduce_sum(tf.cast(loop["ids"] != start.special_ids.padding, tf.int32), axis=1)
        divisor = self.length_divisor(lengths - start.processor.prefix_lengths)
        loop = loop | {"lengths": lengths, "score": loop["score"] / divisor}
        return self._best_first(loop, start.capacity)

    def _best_first(self, loop: Loop, capacity: tf.Tensor) -> Hypotheses:
        """Returns the loop's rows `[B·N, …]` as hypotheses `[B, N, …]`, sorted by score."""
        sizes = {"ids": [capacity], "alignment": [capacity]}
        found = {
            name: tf.reshape(loop[name], [-1, self.num_hypotheses, *sizes.get(name, [])])
            for name in Hypotheses._fields
            if name in loop
        }
        if self.num_hypotheses > 1:
            order = tf.argsort(found["score"], direction="DESCENDING", stable=True)
            found = {name: tf.gather(rows, order, batch_dims=1) for name, rows in found.items()}
        return Hypotheses(**found)


def ids_of(source: Source) -> Ids:
    """Returns the ids of a source that is given alone or in a dictionary."""
    if not isinstance(source, Mapping):
        return source
    if "source" not in source:
        expected = "a dictionary with the ids as 'source', or the ids alone"
        raise ArgumentError("source", expected, sorted(source))
    return source["source"]


def _as_ids(ids: Any, padding: int) -> tf.Tensor:
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_tensor(padding)
    return tf.cast(tf.convert_to_tensor(ids), tf.int32)


def _count_tokens(ids: tf.Tensor, padding: int) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(ids != padding, tf.int32), axis=1)


def _as_prefix(
    prefix: Ids | None, source_ids: tf.Tensor | None, padding: int
) -> tuple[tf.Tensor | None, tf.Tensor]:
    """Returns the prefix as padded ids `[B, P]`, or None, and its lengths `[B]`."""
    if prefix is None:
        return None, tf.zeros(tf.shape(source_ids)[:1], tf.int32)
    ids = require_rank("prefix", _as_ids(prefix, padding), {2: "B, P"})
    if source_ids is not None:
        problem = "`prefix` must have one row for each row of `source`."
        tf.debugging.assert_equal(tf.shape(ids)[0], tf.shape(source_ids)[0], problem)
    lengths = _count_tokens(ids, padding)
    is_token = tf.range(tf.shape(ids)[1]) < lengths[:, None]
    problem = "`prefix` must be padded at the end of its rows only."
    tf.debugging.assert_equal(ids != padding, is_token, problem)
    return ids, lengths


def length_divisor(length: tf.Tensor, exponent: float, normalization: str = "gnmt") -> tf.Tensor:
    """Returns what normalizes a sum of log-probabilities: by default `((5 + length) / 6)^exponent`.

    Wu et al. 2016, "Google's Neural Machine Translation System", section 7. With the normalization
    "length", it is `length^exponent`.

    >>> float(length_divisor(7, exponent=1.0)), float(length_divisor(7, 1.0, "length"))
    (2.0, 7.0)
    """
    base = tf.cast(length, tf.float32)
    if normalization == "gnmt":
        base = (5.0 + base) / 6.0
    return base**exponent


def write_column(table: tf.Tensor, column: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns `table` `[…, T]` with `values` `[…]` in one of its columns."""
    is_there = tf.range(tf.shape(table)[-1]) == column
    return tf.where(is_there, values[..., None], table)


def repeat_step(step: Callable[[Loop], Loop], loop: Loop, capacity: int | tf.Tensor) -> Loop:
    """Returns the loop variables when every row is done or the "length" is `capacity`."""

    def should_continue(loop: Loop) -> tf.Tensor:
        return (loop["length"] < capacity) & ~tf.reduce_all(loop["is_done"])

    def set_shape(new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        new.set_shape(old.shape)
        return new

    def body(loop: Loop) -> tuple[Loop]:
        new = step(loop)
        # The loop of a graph must keep the static shapes.
        return (new if tf.executing_eagerly() else tf.nest.map_structure(set_shape, new, loop),)

    return tf.while_loop(should_continue, body, (loop,))[0]


def map_rows(function: Callable[[tf.Tensor], tf.Tensor], state: State) -> State:
    """Returns a model's state with a function applied to the rows of each hypothesis."""

    def of_hypotheses(leaf: tf.Tensor) -> tf.Tensor:
        return leaf if leaf.shape.rank == 0 else function(leaf)

    return {
        name: entry if name in _SHARED else tf.nest.map_structure(of_hypotheses, entry)
        for name, entry in state.items()
    }
