"""Beam search: several hypotheses of each input at once."""

import dataclasses
from typing import Any, Self

import tensorflow as tf

from keras_transformer._utils.checks import require_not_negative, require_positive_integer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.decoding.constraints import MINUS_INFINITY
from keras_transformer.decoding.hypotheses import (
    Hypotheses,
    length_divisor,
    merge_rows,
    row_indices,
    set_shapes,
    split_rows,
    take_rows,
    write_column,
)
from keras_transformer.decoding.registry import register_search
from keras_transformer.decoding.search import Ids, Search, SearchStart, Source, most_attended

#: Lower limit of coverage, whose logarithm would be infinite where nothing has attended.
_SMALLEST_COVERAGE = 1e-6


@register_search("beam")
@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """Search that follows the `beams` best hypotheses of each input at once.

    Each step keeps the most likely continuations of all live hypotheses, one for each free beam. A
    hypothesis that ends keeps its beam: finished hypotheses are stored apart from the live ones,
    which cannot displace them. So one beam is greedy search, and with enough beams the search finds
    the best of all hypotheses.

    Finished hypotheses are ranked by score: the sum of log-probabilities over `length_divisor`,
    plus the coverage penalty (Wu et al. 2016, "Google's Neural Machine Translation System", section
    7). A row is done when it has no live hypothesis, or when no live one can get among its
    `n_best`: log-probabilities only decrease, so the score of a live hypothesis cannot exceed its
    sum so far over the divisor of the maximum length.

    >>> from keras_transformer.decoding import LengthLimits
    >>> from keras_transformer.models import Transformer
    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> search = BeamSearch(beams=4, n_best=2, lengths=LengthLimits(maximum=9))
    >>> search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]]).score.shape
    TensorShape([2, 2])

    Args:
        beams: Integer. N, number of hypotheses of an input. Defaults to 4.
        n_best: Integer. Number of hypotheses to return, at most `beams`. Defaults to 1.
        coverage_penalty: Float. Weight of the penalty for source tokens that received little
            attention; 0.2 in the paper. Defaults to 0, no penalty.
        length_penalty: Float. Exponent of the length normalization of scores. Defaults to 0.6.
        lengths: `LengthLimits`. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order. Defaults to none.
        with_alignment: Boolean. Whether to return the source position that each token attended to
            most. Defaults to False.
    """

    beams: int = 4
    n_best: int = 1  # type: ignore[misc]
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive_integer("beams", self.beams)
        require_positive_integer("n_best", self.n_best)
        require_not_negative("coverage_penalty", self.coverage_penalty)
        if self.n_best > self.beams:
            raise ArgumentError("n_best", f"at most `beams`, {self.beams}", self.n_best)

    @property
    def needs_attention(self) -> bool:
        return self.with_alignment or self.coverage_penalty > 0

    @property
    def num_hypotheses(self) -> int:
        return self.beams

    def with_n_best(self, n: int) -> Self:
        return dataclasses.replace(self, n_best=n)

    def __call__(
        self, model: Any, source: Source | None = None, prefix: Ids | None = None
    ) -> Hypotheses:
        start = self.prepare(model, source, prefix)

        def should_continue(loop: dict[str, Any]) -> tf.Tensor:
            return (loop["length"] < start.capacity) & ~tf.reduce_all(loop["is_done"])

        def step(loop: dict[str, Any]) -> tuple[dict[str, Any]]:
            return (set_shapes(self._step(loop, start), like=loop),)

        (loop,) = tf.while_loop(should_continue, step, (self._initial_loop(start),))
        finished = {name: value[:, : self.n_best] for name, value in loop["finished"].items()}
        return Hypotheses(**finished)

    def _initial_loop(self, start: SearchStart) -> dict[str, Any]:
        """Returns the loop variables before the first token: one live hypothesis of each input."""
        special = start.special_ids
        by_beam = [start.batch_size, self.beams]
        is_first = tf.tile(tf.range(self.beams)[None] == 0, [start.batch_size, 1])  # [B, N]
        live = {
            "ids": tf.fill([*by_beam, start.capacity], special.padding),
            # A sum of log-probabilities; -inf where there is no hypothesis.
            "score": tf.where(is_first, 0.0, MINUS_INFINITY),
            "log_probability": tf.zeros(by_beam),
        }
        if self.with_alignment:
            live["alignment"] = tf.zeros([*by_beam, start.capacity], tf.int32)
        finished = {
            **live,
            "score": tf.fill(by_beam, MINUS_INFINITY),
            "lengths": tf.zeros(by_beam, tf.int32),
        }
        if self.coverage_penalty:
            live["coverage"] = tf.zeros([*by_beam, tf.shape(start.source_mask)[1]])
        return {
            "length": tf.constant(0),
            "latest": tf.fill([start.batch_size * self.beams], special.start),
            "is_done": tf.fill(start.batch_size[None], False),  # [B]
            "live": live,
            "finished": finished,
            "state": start.state,
        }

    def _step(self, loop: dict[str, Any], start: SearchStart) -> dict[str, Any]:
        """Returns the loop variables after one more token."""
        length, live, processor = loop["length"], loop["live"], start.processor
        logits, attention, state = start.step(loop["latest"], loop["state"])
        ids = merge_rows(live["ids"], start.capacity)
        # The best N continuations of an input are among the best N of each of its hypotheses.
        following = processor.top_k(logits, ids, length, k=self.beams)
        scores = processor.without_forced(following.scores, length)  # [B·N, N]
        best, parents, places = self._best(live["score"], scores)
        best = tf.where(self._is_free(loop), best, MINUS_INFINITY)
        rows = row_indices(tf.range(start.batch_size), self.beams, parents)  # [B, N]
        where = tf.stack([rows, places], axis=-1)
        tokens = tf.gather_nd(following.tokens, where)
        own = tf.gather_nd(following.log_probabilities, where)
        is_forced = split_rows(processor.is_forced(length), self.beams)
        candidates = {
            name: tf.gather(value, parents, batch_dims=1)
            for name, value in self._add_attention(live, attention, length).items()
        }
        candidates["ids"] = write_column(candidates["ids"], length, tokens)
        candidates["log_probability"] += tf.where(is_forced, 0.0, own)
        candidates["score"] = best

        has_ended = (tokens == start.special_ids.end) & ~is_forced
        ended = self._finish(candidates, has_ended, length + 1, start)
        finished = self._merge(loop["finished"], ended, start.special_ids.padding)
        candidates["score"] = tf.where(has_ended, MINUS_INFINITY, best)
        return {
            "length": length + 1,
            "latest": merge_rows(tokens),
            "is_done": self._is_done(candidates["score"], finished, processor.maxima),
            "live": candidates,
            "finished": finished,
            "state": take_rows(state, merge_rows(rows)),
        }

    def _best(self, totals: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the best continuations: their sums, parents and candidates, all `[B, N]`.

        `totals` `[B, N]` belong to the live hypotheses, `scores` `[B·N, K]` to their candidates.
        """
        batch_size, size = tf.shape(totals)[0], tf.shape(scores)[1]
        totals = tf.reshape(merge_rows(totals, 1) + scores, [batch_size, self.beams * size])
        best, places = tf.math.top_k(totals, self.beams)
        return best, places // size, places % size

    def _is_free(self, loop: dict[str, Any]) -> tf.Tensor:
        """Returns whether a beam is free for the best candidate, the second and so on, `[B, N]`."""
        is_finished = loop["finished"]["score"] > MINUS_INFINITY
        taken = tf.reduce_sum(tf.cast(is_finished, tf.int32), axis=1)
        is_free = tf.range(self.beams) < self.beams - taken[:, None]
        return is_free & ~loop["is_done"][:, None]

    def _add_attention(
        self, live: dict[str, tf.Tensor], attention: tf.Tensor | None, length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the live hypotheses after one more step of attention `[B·N, S]`."""
        live = dict(live)
        if attention is not None:
            attention = split_rows(attention, self.beams, tf.shape(attention)[1])
        if self.coverage_penalty:
            live["coverage"] += attention
        if self.with_alignment:
            live["alignment"] = write_column(live["alignment"], length, most_attended(attention))
        return live

    def _finish(
        self,
        candidates: dict[str, tf.Tensor],
        has_ended: tf.Tensor,
        length: tf.Tensor,
        start: SearchStart,
    ) -> dict[str, tf.Tensor]:
        """Returns the candidates as finished hypotheses; those that have not ended score -inf."""
        ended = {**candidates, "lengths": tf.fill(tf.shape(has_ended), length)}
        chosen = length - split_rows(start.processor.prefix_lengths, self.beams)
        score = candidates["score"] / length_divisor(chosen, self.length_penalty)
        if self.coverage_penalty and start.source_mask is not None:
            covered = tf.clip_by_value(ended.pop("coverage"), _SMALLEST_COVERAGE, 1.0)
            logs = tf.where(start.source_mask[:, None], tf.math.log(covered), 0.0)
            score += self.coverage_penalty * tf.reduce_sum(logs, axis=-1)
        ended["score"] = tf.where(has_ended, score, MINUS_INFINITY)
        ended["lengths"] = tf.where(ended["score"] > MINUS_INFINITY, ended["lengths"], 0)
        return ended

    def _merge(
        self, finished: dict[str, tf.Tensor], ended: dict[str, tf.Tensor], padding: int
    ) -> dict[str, tf.Tensor]:
        """Returns the best `beams` of two sets of finished hypotheses, best first."""
        both = {name: tf.concat([value, ended[name]], 1) for name, value in finished.items()}
        _, order = tf.math.top_k(both["score"], self.beams)
        merged = {name: tf.gather(value, order, batch_dims=1) for name, value in both.items()}
        is_there = merged["score"] > MINUS_INFINITY
        merged["ids"] = tf.where(is_there[..., None], merged["ids"], padding)
        return merged

    def _is_done(
        self, live_scores: tf.Tensor, finished: dict[str, tf.Tensor], maxima: tf.Tensor
    ) -> tf.Tensor:
        """Returns whether no live hypothesis of an input can get among its best, `[B]`."""
        maxima = split_rows(maxima, self.beams)
        reachable = live_scores / length_divisor(maxima, self.length_penalty)
        worst = finished["score"][:, self.n_best - 1]
        return worst >= tf.reduce_max(reachable, axis=1)
