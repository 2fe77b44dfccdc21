"""What the searches share: from a model and its inputs to the start of the loop."""

import collections.abc
import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_not_negative, require_rank
from keras_transformer.decoding.constraints import Control, LengthLimits, Rules
from keras_transformer.text import PADDING_ID

#: The entries of a state that hypotheses share: those of one source, and all of them.
SHARED = ("memory", "source", "kernels")


def repeat_rows(state, times):
    """A state in which each row of the hypotheses comes `times` times, one after the other."""
    return _map_rows(lambda rows: tf.repeat(rows, times, axis=0), state)


def take_rows(state, indices):
    """A state whose hypotheses are the rows `indices` `[R]` of this one."""
    return _map_rows(lambda rows: tf.gather(rows, indices), state)


def with_shapes_of(old, new):
    """`new`, known to have the static shapes of `old`: a graph's loop must keep them."""
    if tf.executing_eagerly():
        return new

    def keep(old, new):
        new.set_shape(old.shape)
        return new

    return tf.nest.map_structure(keep, old, new)


def write_column(table, column, values):
    """`table` `[…, T]` with `values` `[…]` in one of its columns."""
    is_there = tf.range(tf.shape(table)[-1]) == column
    return tf.where(is_there, values[..., None], table)


def _map_rows(function, state):
    def of_hypotheses(leaf):
        return leaf if leaf.shape.rank == 0 else function(leaf)

    return {
        name: entry if name in SHARED else tf.nest.map_structure(of_hypotheses, entry)
        for name, entry in state.items()
    }


class Hypotheses(NamedTuple):
    """N hypotheses for each of B rows, best first.

    Attributes:
        ids: int32 `[B, N, T]`: the tokens, END included, START not, then padding.
        lengths: int32 `[B, N]`: how many tokens those are; 0 where a row has fewer than N.
        score: float32 `[B, N]`: what the search ranked by; -inf where a row has fewer than N.
        log_probability: float32 `[B, N]`: the model's own, of all tokens but a forced prefix; 0
            where a row has fewer than N.
        alignment: int32 `[B, N, T]`: the source position that each token attended to most, then
            zeros, if the search was asked for it; else None.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    score: tf.Tensor
    log_probability: tf.Tensor
    alignment: tf.Tensor | None = None


def length_divisor(length, exponent):
    """What a sum of log-probabilities over `length` tokens is divided by, so that long and short
    hypotheses can be compared: `((5 + length) / 6) ** exponent`.

    Wu et al. 2016, "Google's Neural Machine Translation System", section 7.

    >>> float(length_divisor(7, exponent=1.0))
    2.0
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** exponent


class Start(NamedTuple):
    """Where a search's loop begins, with R = B·N rows for N hypotheses of each of B inputs.

    Attributes:
        step: `(ids [R], state) -> (logits [R, V], attention [R, S] or None, state)`.
        state: the model's, before its first token.
        rules: what may come next, for the R rows.
        batch_size: B.
        capacity: T, a scalar: no hypothesis is longer, its prefix included.
        source_mask: boolean `[B, S]`, or None if the attention is not needed.
    """

    step: Any
    state: dict
    rules: Rules
    batch_size: tf.Tensor
    capacity: tf.Tensor
    source_mask: tf.Tensor | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Finds token sequences that a model thinks likely.

    A search knows what a model answers (`encode` if it has a source, `initial_state`, `step`, and
    `position_limit` if there is one), the special ids and its own settings, and nothing about how
    the model is made. It runs in the graph with core TensorFlow
    operations: eagerly, inside a `tf.function`, plain or compiled by XLA, with the same result. It
    stops as soon as every row is done. Rows do not influence each other.

    Attributes:
        length_penalty: the exponent of `length_divisor`, by which scores of hypotheses of several
            lengths are made comparable; 0 ranks by plain log-probability. (0.6 is that of Vaswani
            et al. 2017.)
        lengths: a `LengthLimits`.
        controls: `Control`s, applied in this order.
        with_alignment: whether to tell which source position each token attended to most.
    """

    length_penalty: float = 0.6
    lengths: LengthLimits = dataclasses.field(default_factory=LengthLimits)
    controls: tuple = ()
    with_alignment: bool = False

    def __post_init__(self):
        require_not_negative("length_penalty", self.length_penalty)
        require_boolean("with_alignment", self.with_alignment)
        is_one = isinstance(self.controls, Control)
        object.__setattr__(self, "controls", (self.controls,) if is_one else tuple(self.controls))
        if not isinstance(self.lengths, LengthLimits):
            raise ValueError(f"`lengths` must be a LengthLimits; got {self.lengths!r}.")
        for control in self.controls:
            if not isinstance(control, Control):
                raise ValueError(
                    f"`controls` must hold controls such as NoRepeatNgram(3); got {control!r}."
                )

    @property
    def call_inputs(self):
        """The `tf.TensorSpec`s of what `function` takes beside the ids, by name."""
        return {}

    @property
    def needs_attention(self):
        """Whether the search needs to know what the model attends to in the source."""
        return self.with_alignment

    @property
    def width(self):
        """N, how many hypotheses of an input are followed at once."""
        return 1

    def __call__(self, model, source=None, prefix=None):
        """Searches the hypotheses of a batch.

        Args:
            model: a `Transformer`, a `LanguageModel` or anything that answers as they do.
            source: int32 `[B, S]`, padded source ids or a `RaggedTensor`, for a model that has a
                source; or a dictionary of all that its `encode` takes, the ids as "source".
            prefix: int32 `[B, P]`, padded at the end, or a `RaggedTensor`: tokens, without START,
                that the hypotheses must begin with. For a language model, the prompt.

        Returns:
            `Hypotheses`.
        """
        raise NotImplementedError

    def function(self, model, jit_compile=False):
        """The search over one model as a `tf.function` of the source ids `[B, S]`.

        (For a model without a source: of the prompt's, `[B, P]`. After them come the model's
        `further_inputs`, if it has any, and that of a `SamplingSearch` takes a seed at the end, an
        int64 scalar.) It is traced once, whatever the shapes; XLA compiles it for each shape, so
        with `jit_compile` pad to a few.
        """
        has_source = hasattr(model, "encode")
        names = ["source" if has_source else "prefix", *getattr(model, "further_inputs", ())]

        def search(*given):
            read, others = given[: len(names)], given[len(names) :]
            inputs = dict(zip(names, read, strict=True))
            inputs = {"source": inputs} if has_source else inputs
            return self(model, **inputs, **dict(zip(self.call_inputs, others, strict=True)))

        specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in names]
        return tf.function(
            search,
            input_signature=[*specs, *self.call_inputs.values()],
            jit_compile=jit_compile,
            autograph=False,
        )

    def begin(self, model, source, prefix):
        """Encodes the source and lays out the rows; returns a `Start`."""
        has_source = hasattr(model, "encode")
        if has_source != (source is not None):
            raise ValueError(
                "This model has a source, and needs it as `source`."
                if has_source
                else "This model has no source: give the prompt as `prefix`."
            )
        if source is None and prefix is None:
            raise ValueError("A model without a source needs a `prefix`, its prompt.")
        if has_source:
            further = dict(source) if isinstance(source, collections.abc.Mapping) else {}
            source = require_rank("source", _as_ids(ids_of(source)), {2: "B, S"})
            further.pop("source", None)
        prefix, prefix_lengths = _as_prefix(prefix, source)
        if has_source:
            batch_size, longest_source = tf.shape(source)[0], tf.shape(source)[1]
            source_tokens = _count_tokens(source)
        else:
            batch_size, longest_source = tf.shape(prefix)[0], tf.shape(prefix)[1]
            source_tokens = prefix_lengths

        # All but the number of rows follows from shapes, which XLA knows when it compiles.
        capacity = self.lengths.longest(longest_source)
        if prefix is not None:
            capacity += tf.shape(prefix)[1]
        minima, maxima = self.lengths.rows(source_tokens)
        limit = getattr(model, "position_limit", None)
        if limit is not None:
            tf.debugging.assert_less(
                prefix_lengths,
                limit,
                f"`prefix` must be shorter than the {limit} positions that the model has.",
            )
            capacity = tf.minimum(capacity, limit)
            maxima = tf.minimum(maxima, limit - prefix_lengths)
            minima = tf.minimum(minima, maxima)

        source_mask = None
        if source is None:
            state = model.initial_state(batch_size, max_length=capacity)
        else:
            memory = model.encode(source, **further)
            state = model.initial_state(memory, max_length=capacity)
            source_mask = memory.mask if self.needs_attention else None
        rows = (minima, maxima, prefix_lengths)
        if self.width > 1:
            state = repeat_rows(state, self.width)
            rows = (tf.repeat(values, self.width, axis=0) for values in rows)
            prefix = None if prefix is None else tf.repeat(prefix, self.width, axis=0)
        minima, maxima, prefix_lengths = rows
        rules = Rules(self.controls, minima, maxima, prefix, prefix_lengths)
        step = self._step(model, has_source=source is not None)
        return Start(step, state, rules, batch_size, capacity, source_mask)

    def _step(self, model, has_source):
        if self.needs_attention and not has_source:
            raise ValueError(
                "This search needs the attention to a source (for `with_alignment` or "
                "`coverage_penalty`), and there is no source."
            )

        def step(ids, state):
            if self.needs_attention:
                logits, attention, state = model.step(ids, state, return_attention=True)
                attention = tf.cast(attention, tf.float32)
            else:
                logits, state = model.step(ids, state)
                attention = None
            return tf.cast(logits, tf.float32), attention, state

        return step


def attended(attention):
    """The source position `[…]` that is attended to most, of attention `[…, S]`."""
    return tf.argmax(attention, axis=-1, output_type=tf.int32)


def ids_of(source):
    """The ids of a source, given alone or in a dictionary of all that a model reads of it."""
    if not isinstance(source, collections.abc.Mapping):
        return source
    if "source" not in source:
        raise ValueError(
            "A dictionary as `source` must hold the ids as 'source'; got "
            f"{sorted(source)}. Give all that the model's `encode` takes, by name."
        )
    return source["source"]


def _as_ids(ids):
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_tensor(PADDING_ID)
    return tf.cast(tf.convert_to_tensor(ids), tf.int32)


def _count_tokens(ids):
    return tf.reduce_sum(tf.cast(ids != PADDING_ID, tf.int32), axis=1)


def _as_prefix(prefix, source):
    """The prefix as padded ids `[B, P]`, or None, and its lengths `[B]`."""
    if prefix is None:
        return None, tf.zeros(tf.shape(source)[:1], tf.int32)
    prefix = require_rank("prefix", _as_ids(prefix), {2: "B, P"})
    if source is not None:
        tf.debugging.assert_equal(
            tf.shape(prefix)[0],
            tf.shape(source)[0],
            "`prefix` must have a row for each of `source`.",
        )
    lengths = _count_tokens(prefix)
    is_token = tf.range(tf.shape(prefix)[1]) < lengths[:, None]
    tf.debugging.assert_equal(
        prefix != PADDING_ID, is_token, "`prefix` must be padded at the end of its rows only."
    )
    return prefix, lengths
