"""Greedy search, and the base of the searches that follow each hypothesis by itself."""

import dataclasses
from typing import Any

import tensorflow as tf

from keras_transformer.decoding.constraints import Candidates, LogitsProcessor
from keras_transformer.decoding.hypotheses import (
    Hypotheses,
    length_divisor,
    set_shapes,
    split_rows,
    write_column,
)
from keras_transformer.decoding.registry import register_search
from keras_transformer.decoding.search import Ids, Search, Source, most_attended


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequentialSearch(Search):
    """Base class of searches in which each row chooses one token at a time and keeps it."""

    def choose(
        self, processor: LogitsProcessor, logits: tf.Tensor, loop: dict[str, Any], seed: Any
    ) -> Candidates:
        """Returns the next token of each row: `Candidates`, but of shape `[R]`.

        Args:
            processor: `LogitsProcessor` of the rows.
            logits: float32 `[R, V]`. Logits of the model.
            loop: The loop variables, such as "ids", the tokens so far, and their "length".
            seed: The argument `seed` of `run`.
        """
        raise NotImplementedError

    def run(
        self, model: Any, source: Source | None, prefix: Ids | None, seed: Any = None
    ) -> Hypotheses:
        """Returns the hypotheses of a batch; `seed` is passed to `choose`."""
        start = self.prepare(model, source, prefix)
        processor, capacity = start.processor, start.capacity
        padding, end = start.special_ids.padding, start.special_ids.end
        rows = start.batch_size * self.num_hypotheses
        loop = {
            "length": tf.constant(0),
            "ids": tf.fill([rows, capacity], padding),
            "latest": tf.fill([rows], start.special_ids.start),
            "is_done": tf.fill([rows], False),
            "score": tf.zeros([rows]),
            "log_probability": tf.zeros([rows]),
            "state": start.state,
        }
        if self.with_alignment:
            loop["alignment"] = tf.zeros([rows, capacity], tf.int32)

        def should_continue(loop: dict[str, Any]) -> tf.Tensor:
            return (loop["length"] < capacity) & ~tf.reduce_all(loop["is_done"])

        def step(loop: dict[str, Any]) -> tuple[dict[str, Any]]:
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
                places = tf.where(is_done, 0, most_attended(attention))
                new["alignment"] = write_column(loop["alignment"], length, places)
            return (set_shapes(new, like=loop),)

        (loop,) = tf.while_loop(should_continue, step, (loop,))
        lengths = tf.reduce_sum(tf.cast(loop["ids"] != padding, tf.int32), axis=1)
        divisor = length_divisor(lengths - processor.prefix_lengths, self.length_penalty)
        loop |= {"lengths": lengths, "score": loop["score"] / divisor}
        return self._best_first(loop, capacity)

    def _best_first(self, loop: dict[str, Any], capacity: tf.Tensor) -> Hypotheses:
        """Returns the loop's rows `[B·N, …]` as hypotheses `[B, N, …]`, sorted by score."""
        sizes = {"ids": [capacity], "alignment": [capacity]}
        found = {
            name: split_rows(loop[name], self.num_hypotheses, *sizes.get(name, []))
            for name in Hypotheses._fields
            if name in loop
        }
        if self.num_hypotheses > 1:
            order = tf.argsort(found["score"], direction="DESCENDING", stable=True)
            found = {name: tf.gather(rows, order, batch_dims=1) for name, rows in found.items()}
        return Hypotheses(**found)


@register_search("greedy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedySearch(SequentialSearch):
    """Search that chooses the most likely next token until it is the end id.

    >>> from keras_transformer.decoding import LengthLimits
    >>> from keras_transformer.models import Transformer
    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> search = GreedySearch(lengths=LengthLimits(maximum=9))
    >>> search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]]).score.shape
    TensorShape([2, 1])

    Args:
        length_penalty: Float. Exponent of the length normalization of scores. Defaults to 0.6.
        lengths: `LengthLimits`. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order. Defaults to none.
        with_alignment: Boolean. Whether to return the source position that each token attended to
            most. Defaults to False.
    """

    def __call__(
        self, model: Any, source: Source | None = None, prefix: Ids | None = None
    ) -> Hypotheses:
        return self.run(model, source, prefix)

    def choose(
        self, processor: LogitsProcessor, logits: tf.Tensor, loop: dict[str, Any], seed: Any
    ) -> Candidates:
        best = processor.top_k(logits, loop["ids"], loop["length"], k=1)
        return Candidates(*(part[:, 0] for part in best))
