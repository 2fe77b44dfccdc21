"""Several hypotheses side by side."""

import dataclasses

import tensorflow as tf

from keras_transformer._utils.checks import require_not_negative, require_positive_integer
from keras_transformer.decoding.constraints import NEVER
from keras_transformer.decoding.search import (
    Hypotheses,
    Search,
    attended,
    length_divisor,
    take_rows,
    with_shapes_of,
    write_column,
)
from keras_transformer.text import END_ID, PADDING_ID, START_ID

#: Keeps the logarithm of a coverage finite where nothing has attended.
_SMALLEST_COVERAGE = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """Follows the `beams` best hypotheses at once.

    There are as many places as beams. Of all continuations of the live hypotheses, each step keeps
    the likeliest, as many as there are places left. One that ends keeps its place for good, apart
    from the live ones, which can never displace it. So one beam is greedy search, and enough beams
    find the best of all hypotheses.

    The finished ones are ranked by score: the sum of log-probabilities over `length_divisor`, plus
    the coverage penalty (Wu et al. 2016, "Google's Neural Machine Translation System", section 7).
    A row is done when it has no live hypothesis, or when no live one can still come among its
    `n_best`: log-probabilities only fall, so none can reach more than its sum now over the divisor
    of the longest length.

    Attributes: those of `Search`, and
        beams: N, the number of places.
        n_best: how many hypotheses to return, at most `beams`.
        coverage_penalty: how much to punish source tokens that little attention went to; 0 for not
            at all, 0.2 in the paper.

    >>> from keras_transformer import Transformer
    >>> from keras_transformer.decoding import LengthLimits
    >>> model = Transformer.from_preset("tiny", vocabulary_size=1000)
    >>> search = BeamSearch(beams=4, n_best=2, lengths=LengthLimits(maximum=9))
    >>> found = search(model, source=[[5, 6, 7, 3], [8, 3, 0, 0]])
    >>> found.score.shape
    TensorShape([2, 2])
    """

    beams: int = 4
    n_best: int = 1
    coverage_penalty: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        require_positive_integer("beams", self.beams)
        require_positive_integer("n_best", self.n_best)
        require_not_negative("coverage_penalty", self.coverage_penalty)
        if self.n_best > self.beams:
            raise ValueError(
                f"`n_best` must not be more than `beams`; got {self.n_best} and {self.beams}."
            )

    @property
    def needs_attention(self):
        return self.with_alignment or self.coverage_penalty > 0

    @property
    def width(self):
        return self.beams

    def __call__(self, model, source=None, prefix=None):
        start = self.begin(model, source, prefix)

        def goes_on(loop):
            return (loop["length"] < start.capacity) & ~tf.reduce_all(loop["is_done"])

        def advance(loop):
            return (with_shapes_of(loop, self._advance(loop, start)),)

        (loop,) = tf.while_loop(goes_on, advance, (self._first(start),))
        finished = {name: value[:, : self.n_best] for name, value in loop["finished"].items()}
        return Hypotheses(**finished)

    def _first(self, start):
        """The loop's variables before the first token: one live hypothesis, no finished one."""
        by_beam = [start.batch_size, self.beams]
        is_first = tf.tile(tf.range(self.beams)[None] == 0, [start.batch_size, 1])  # [B, N]
        live = {
            "ids": tf.fill([*by_beam, start.capacity], PADDING_ID),
            "score": tf.where(is_first, 0.0, NEVER),  # a sum of log-probabilities; -inf: no place
            "log_probability": tf.zeros(by_beam),
        }
        if self.with_alignment:
            live["alignment"] = tf.zeros([*by_beam, start.capacity], tf.int32)
        finished = {
            **live,
            "score": tf.fill(by_beam, NEVER),
            "lengths": tf.zeros(by_beam, tf.int32),
        }
        if self.coverage_penalty:
            live["coverage"] = tf.zeros([*by_beam, tf.shape(start.source_mask)[1]])
        return {
            "length": tf.constant(0),
            "latest": tf.fill([start.batch_size * self.beams], START_ID),
            "is_done": tf.fill(start.batch_size[None], False),  # [B]
            "live": live,
            "finished": finished,
            "state": start.state,
        }

    def _advance(self, loop, start):
        """The loop's variables after one more token."""
        length, live, rules = loop["length"], loop["live"], start.rules
        logits, attention, state = start.step(loop["latest"], loop["state"])
        ids = tf.reshape(live["ids"], [-1, start.capacity])
        # A row's best N continuations are among the best N of each of its hypotheses.
        following = rules.best(logits, ids, length, count=self.beams)
        scores = rules.without_given(following.scores, length)  # [B·N, N]
        best, parents, places = self._best(live["score"], scores)
        best = tf.where(self._is_open(loop), best, NEVER)
        rows = tf.range(start.batch_size)[:, None] * self.beams + parents  # [B, N]
        where = tf.stack([rows, places], axis=-1)
        tokens = tf.gather_nd(following.tokens, where)
        own = tf.gather_nd(following.log_probabilities, where)
        is_given = tf.reshape(rules.is_given(length), tf.shape(best))
        candidates = {
            name: tf.gather(value, parents, batch_dims=1)
            for name, value in self._attend(live, attention, length).items()
        }
        candidates["ids"] = write_column(candidates["ids"], length, tokens)
        candidates["log_probability"] += tf.where(is_given, 0.0, own)
        candidates["score"] = best

        has_ended = (tokens == END_ID) & ~is_given
        ended = self._ended(candidates, has_ended, length + 1, start)
        finished = self._merge(loop["finished"], ended)
        candidates["score"] = tf.where(has_ended, NEVER, best)
        return {
            "length": length + 1,
            "latest": tf.reshape(tokens, [-1]),
            "is_done": self._is_done(candidates["score"], finished, rules.maxima),
            "live": candidates,
            "finished": finished,
            "state": take_rows(state, tf.reshape(rows, [-1])),
        }

    def _best(self, totals, scores):
        """The best continuations: their sums, their parents and places among those; all `[B, N]`.

        Args:
            totals: `[B, N]`, of the live hypotheses.
            scores: `[B·N, K]`, of the tokens that may come next.
        """
        batch_size, size = tf.shape(totals)[0], tf.shape(scores)[1]
        totals = tf.reshape(totals, [-1, 1]) + scores
        best, places = tf.math.top_k(
            tf.reshape(totals, [batch_size, self.beams * size]), self.beams
        )
        return best, places // size, places % size

    def _is_open(self, loop):
        """Whether there is a place for the best candidate, the second …; boolean `[B, N]`."""
        taken = tf.reduce_sum(tf.cast(loop["finished"]["score"] > NEVER, tf.int32), axis=1)
        is_open = tf.range(self.beams) < self.beams - taken[:, None]
        return is_open & ~loop["is_done"][:, None]

    def _attend(self, live, attention, length):
        """The live hypotheses after one more step of attention `[B·N, S]`."""
        live = dict(live)
        if attention is not None:
            attention = tf.reshape(attention, [-1, self.beams, tf.shape(attention)[1]])
        if self.coverage_penalty:
            live["coverage"] += attention
        if self.with_alignment:
            live["alignment"] = write_column(live["alignment"], length, attended(attention))
        return live

    def _ended(self, candidates, has_ended, length, start):
        """The candidates as finished hypotheses; those that have not ended have no score."""
        ended = {**candidates, "lengths": tf.fill(tf.shape(has_ended), length)}
        chosen = length - tf.reshape(start.rules.prefix_lengths, tf.shape(has_ended))
        score = candidates["score"] / length_divisor(chosen, self.length_penalty)
        if self.coverage_penalty:
            covered = tf.clip_by_value(ended.pop("coverage"), _SMALLEST_COVERAGE, 1.0)
            logs = tf.where(start.source_mask[:, None], tf.math.log(covered), 0.0)
            score += self.coverage_penalty * tf.reduce_sum(logs, axis=-1)
        ended["score"] = tf.where(has_ended, score, NEVER)
        ended["lengths"] = tf.where(ended["score"] > NEVER, ended["lengths"], 0)
        return ended

    def _merge(self, finished, ended):
        """The best `beams` of two lots of finished hypotheses, best first."""
        both = {name: tf.concat([value, ended[name]], 1) for name, value in finished.items()}
        _, order = tf.math.top_k(both["score"], self.beams)
        merged = {name: tf.gather(value, order, batch_dims=1) for name, value in both.items()}
        is_there = merged["score"] > NEVER
        merged["ids"] = tf.where(is_there[..., None], merged["ids"], PADDING_ID)
        return merged

    def _is_done(self, live_scores, finished, maxima):
        """Whether no live hypothesis of a row can still come among its best, boolean `[B]`."""
        maxima = tf.reshape(maxima, tf.shape(live_scores))
        reachable = live_scores / length_divisor(maxima, self.length_penalty)
        worst = finished["score"][:, self.n_best - 1]
        return worst >= tf.reduce_max(reachable, axis=1)
