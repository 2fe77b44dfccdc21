"""Beam search: several hypotheses of each input at once."""

import dataclasses
import functools
from typing import Any, Self, TypeAlias

import tensorflow as tf

from keras_transformer._utils.checks import (
    require_choice,
    require_not_negative,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.decoding.constraints import MINUS_INFINITY, LogitsProcessor
from keras_transformer.decoding.search import (
    Hypotheses,
    Loop,
    Search,
    SearchStart,
    Source,
    map_rows,
    repeat_step,
    write_column,
)
from keras_transformer.decoding.search_settings import STOPPING, register_search
from keras_transformer.text.tokenizer import Ids

# Tensors `[B, N, …]` of hypotheses by name, such as "ids" and "score".
_Rows: TypeAlias = dict[str, tf.Tensor]

#: Lower limit of coverage, so that its logarithm is finite for tokens without attention.
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

    That is `stopping="narrow"`. The other values keep `beams` live hypotheses, whatever has ended,
    as Hugging Face's search does: a finished hypothesis is stored if it is among the `beams` best
    continuations, and the best others stay live. A row is done when there are `beams` finished ones
    ("early"), when moreover no live one has a better score at its present length ("heuristic") or
    can have a better one at maximum length ("never").

    >>> from keras_transformer.decoding import LengthLimits
    >>> from keras_transformer.models import Transformer
    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> search = BeamSearch(beams=4, n_best=2, lengths=LengthLimits(maximum=9))
    >>> search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]]).score.shape
    TensorShape([2, 2])

    Args:
        beams: N, number of hypotheses of an input.
        n_best: Number of hypotheses to return, at most `beams`.
        coverage_penalty: Penalty for source tokens with little attention; 0.2 in the paper.
        stopping: "narrow", "early", "heuristic" or "never"; see above.
        length_penalty: Exponent of the length normalization of scores.
        length_normalization: "gnmt" or "length", see `Search`.
        lengths: Minimum and maximum lengths. Defaults to `LengthLimits()`.
        constraints: `Constraint` or `Constraint`s, applied in this order.
        with_alignment: Whether to return the source position that each token attended to most.
    """

    beams: int = 4
    n_best: int = 1  # type: ignore[misc]
    coverage_penalty: float = 0.0
    stopping: str = "narrow"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive_integer("beams", self.beams)
        require_positive_integer("n_best", self.n_best)
        require_not_negative("coverage_penalty", self.coverage_penalty)
        require_choice("stopping", self.stopping, STOPPING)
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
        step = functools.partial(self._step, start)
        loop = repeat_step(step, self._initial_loop(start), start.capacity)
        finished = {name: value[:, : self.n_best] for name, value in loop["finished"].items()}
        return Hypotheses(**finished)

    def _initial_loop(self, start: SearchStart) -> Loop:
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

    def _step(self, start: SearchStart, loop: Loop) -> Loop:
        """Returns the loop variables after one more token."""
        length, live, processor = loop["length"], loop["live"], start.processor
        logits, attention, state = start.step(loop["latest"], loop["state"])
        ids = tf.reshape(live["ids"], [-1, start.capacity])  # [B·N, T]
        # The best K continuations of an input are among the best K of each of its hypotheses. Of
        # 2N, at least N do not end, because only one continuation of a hypothesis ends.
        refills = self.stopping != "narrow"
        following = processor.top_k(
            logits, ids, length, k=2 * self.beams if refills else self.beams
        )
        scores = processor.without_forced(following.scores, length)  # [B·N, K]
        size = tf.shape(scores)[1]
        totals = tf.reshape(live["score"], [-1, 1]) + scores  # [B·N, K]
        totals = tf.reshape(totals, [start.batch_size, self.beams * size])
        best, places = tf.math.top_k(totals, 2 * self.beams if refills else self.beams)  # [B, K]
        best = tf.where(loop["is_done"][:, None], MINUS_INFINITY, best)
        if not refills:  # a beam is free for the best candidate, the second and so on
            is_finished = loop["finished"]["score"] > MINUS_INFINITY
            taken = tf.reduce_sum(tf.cast(is_finished, tf.int32), axis=1)
            is_free = tf.range(self.beams) < self.beams - taken[:, None]  # [B, N]
            best = tf.where(is_free, best, MINUS_INFINITY)
        live = self._add_attention(live, attention, length)
        is_forced = tf.reshape(processor.is_forced(length), [-1, self.beams])  # [B, N]

        def extend(best: tf.Tensor, places: tf.Tensor) -> tuple[_Rows, tf.Tensor, tf.Tensor]:
            """Returns N continuations of the hypotheses, their tokens, and the rows they extend."""
            parents = places // size  # [B, N]
            rows = tf.range(start.batch_size)[:, None] * self.beams + parents
            where = tf.stack([rows, places % size], axis=-1)
            tokens = tf.gather_nd(following.tokens, where)
            own = tf.gather_nd(following.log_probabilities, where)
            new = {name: tf.gather(value, parents, batch_dims=1) for name, value in live.items()}
            new["ids"] = write_column(new["ids"], length, tokens)
            new["log_probability"] += tf.where(is_forced, 0.0, own)
            return {**new, "score": best}, tokens, tf.reshape(rows, [-1])

        def ends(tokens: tf.Tensor) -> tf.Tensor:
            return (tokens == start.special_ids.end) & ~is_forced[:, :1]

        candidates, tokens, rows = extend(best[:, : self.beams], places[:, : self.beams])
        ended = self._finish(candidates, ends(tokens), length + 1, start)
        finished = self._merge(loop["finished"], ended, start.special_ids.padding)
        if refills:
            flat = tf.range(start.batch_size)[:, None] * self.beams + places // size  # [B, K]
            all_tokens = tf.gather_nd(following.tokens, tf.stack([flat, places % size], axis=-1))
            open_scores = tf.where(ends(all_tokens), MINUS_INFINITY, best)
            best, kept = tf.math.top_k(open_scores, self.beams)
            candidates, tokens, rows = extend(best, tf.gather(places, kept, batch_dims=1))
        candidates["score"] = tf.where(ends(tokens), MINUS_INFINITY, candidates["score"])
        return {
            "length": length + 1,
            "latest": tf.reshape(tokens, [-1]),
            "is_done": self._is_done(candidates["score"], finished, length + 1, processor),
            "live": candidates,
            "finished": finished,
            "state": map_rows(lambda value: tf.gather(value, rows), state),
        }

    def _add_attention(self, live: _Rows, attention: tf.Tensor | None, length: tf.Tensor) -> _Rows:
        """Returns the live hypotheses after one more step of attention `[B·N, S]`."""
        live = dict(live)
        if attention is not None:
            attention = tf.reshape(attention, [-1, self.beams, tf.shape(attention)[1]])  # [B, N, S]
        if self.coverage_penalty:
            live["coverage"] += attention
        if self.with_alignment:
            places = tf.argmax(attention, axis=-1, output_type=tf.int32)
            live["alignment"] = write_column(live["alignment"], length, places)
        return live

    def _finish(
        self, candidates: _Rows, has_ended: tf.Tensor, length: tf.Tensor, start: SearchStart
    ) -> _Rows:
        """Returns the candidates as finished hypotheses; those that have not ended score -inf."""
        ended = {**candidates, "lengths": tf.fill(tf.shape(has_ended), length)}
        chosen = length - tf.reshape(start.processor.prefix_lengths, [-1, self.beams])  # [B, N]
        score = candidates["score"] / self.length_divisor(chosen)
        if self.coverage_penalty and start.source_mask is not None:
            covered = tf.clip_by_value(ended.pop("coverage"), _SMALLEST_COVERAGE, 1.0)
            logs = tf.where(start.source_mask[:, None], tf.math.log(covered), 0.0)
            score += self.coverage_penalty * tf.reduce_sum(logs, axis=-1)
        # LiteRT stores -inf as the lowest number, which must not become another one by division.
        has_ended &= candidates["score"] > MINUS_INFINITY
        ended["score"] = tf.where(has_ended, score, MINUS_INFINITY)
        ended["lengths"] = tf.where(ended["score"] > MINUS_INFINITY, ended["lengths"], 0)
        return ended

    def _merge(self, finished: _Rows, ended: _Rows, padding: int) -> _Rows:
        """Returns the best `beams` of two sets of finished hypotheses, best first."""
        both = {name: tf.concat([value, ended[name]], 1) for name, value in finished.items()}
        _, order = tf.math.top_k(both["score"], self.beams)
        merged = {name: tf.gather(value, order, batch_dims=1) for name, value in both.items()}
        is_there = merged["score"] > MINUS_INFINITY
        merged["ids"] = tf.where(is_there[..., None], merged["ids"], padding)
        return merged

    def _is_done(
        self, scores: tf.Tensor, finished: _Rows, length: tf.Tensor, processor: LogitsProcessor
    ) -> tf.Tensor:
        """Returns whether the search of an input is over, given its live scores, `[B]`."""
        narrow = self.stopping == "narrow"
        worst = finished["score"][:, (self.n_best if narrow else self.beams) - 1]
        if self.stopping == "early":
            return (worst > MINUS_INFINITY) | (scores[:, 0] <= MINUS_INFINITY)
        if self.stopping == "heuristic":
            lengths = length - processor.prefix_lengths
        else:
            lengths = processor.maxima
        lengths = tf.reshape(tf.maximum(lengths, 1), [-1, self.beams])  # [B, N]
        reachable = scores / self.length_divisor(lengths)
        reachable = tf.where(scores > MINUS_INFINITY, reachable, MINUS_INFINITY)
        return worst >= tf.reduce_max(reachable, axis=1)
