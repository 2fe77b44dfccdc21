"""Constraints on the next token: lengths, repetitions, forbidden tokens, and their application."""

import dataclasses
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    maximum_of,
    require_at_least_one,
    require_integer,
    require_not_negative,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.text.special_ids import SpecialIds

#: Score of a token that is never chosen and of a hypothesis that does not exist.
MINUS_INFINITY = -np.inf


class Constraint:
    """Base class of constraints, which change the scores of the next token in any search.

    A constraint depends on the tokens so far and on nothing else of the search. A new one is a
    frozen dataclass that implements `adjust`.
    """

    def adjust(
        self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, special_ids: SpecialIds
    ) -> tf.Tensor:
        """Returns the changed scores `[R, V]`; a token with -inf is never chosen.

        It runs in the graph, also under XLA.

        Args:
            scores: float32 `[R, V]`. Scores of the next token after the constraints before.
            ids: int32 `[R, T]`. Tokens so far, padded.
            length: int32 scalar. Number of tokens so far.
            special_ids: Those of the model.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ForbiddenTokens(Constraint):
    """Constraint that excludes tokens, such as the unknown id.

    Args:
        ids: Id or ids of the tokens.

    >>> forbidden = ForbiddenTokens([1])
    >>> forbidden.adjust(tf.zeros([1, 3]), ids=None, length=0, special_ids=SpecialIds()).numpy()
    array([[  0., -inf,   0.]], dtype=float32)
    """

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        given: int | Iterable[int] = self.ids
        values = (given,) if isinstance(given, numbers.Integral) else tuple(given)
        checked = tuple(require_integer("ids", value, 0) for value in values)
        object.__setattr__(self, "ids", checked)

    def require_end_allowed(self, special_ids: SpecialIds, name: str = "ids") -> None:
        """Raises an `ArgumentError` about the argument `name` if the end id is excluded."""
        if special_ids.end in self.ids:
            expected = f"other than {special_ids.end}, the end id, or no hypothesis would end"
            fix = "For longer hypotheses, increase the minimum length."
            raise ArgumentError(name, expected, self.ids, fix=fix)

    def adjust(
        self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, special_ids: SpecialIds
    ) -> tf.Tensor:
        self.require_end_allowed(special_ids)
        size = scores.shape[-1]
        beyond = [number for number in self.ids if number >= size]
        if beyond:
            raise ArgumentError("ids", f"below {size}, the vocabulary size of the model", beyond)
        is_forbidden = np.isin(np.arange(size), self.ids)
        return tf.where(is_forbidden, MINUS_INFINITY, scores)


@dataclasses.dataclass(frozen=True)
class ForcedFirstToken(Constraint):
    """Constraint that makes every hypothesis begin with one token, at no cost.

    Multilingual models choose the language of the target so. The token counts for lengths.

    Args:
        id: Id of the token.

    >>> forced = ForcedFirstToken(1)
    >>> forced.adjust(-tf.ones([1, 3]), ids=None, length=0, special_ids=SpecialIds()).numpy()
    array([[-inf,   0., -inf]], dtype=float32)
    """

    id: int

    def __post_init__(self) -> None:
        require_integer("id", self.id, 0)

    def adjust(
        self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, special_ids: SpecialIds
    ) -> tf.Tensor:
        if self.id >= scores.shape[-1]:
            expected = f"below {scores.shape[-1]}, the vocabulary size of the model"
            raise ArgumentError("forced_first_id", expected, self.id)
        only = tf.where(tf.range(scores.shape[-1]) == self.id, 0.0, MINUS_INFINITY)
        return tf.where(tf.equal(length, 0), only, scores)


@dataclasses.dataclass(frozen=True)
class NoRepeatNgram(Constraint):
    """Constraint that excludes tokens that would repeat an n-gram, but never the end id.

    Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.5, with
    trigrams.

    Args:
        size: Number of tokens of the n-grams.

    >>> once = NoRepeatNgram(2)
    >>> ids = tf.constant([[4, 5, 4, 0]])
    >>> once.adjust(tf.zeros([1, 6]), ids, length=3, special_ids=SpecialIds()).numpy()
    array([[  0.,   0.,   0.,   0.,   0., -inf]], dtype=float32)
    """

    size: int

    def __post_init__(self) -> None:
        require_positive_integer("size", self.size)
        if self.size > (maximum := maximum_of("no_repeat_ngram")):
            raise ArgumentError("size", f"at most {maximum}", self.size)

    def adjust(
        self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, special_ids: SpecialIds
    ) -> tf.Tensor:
        # An n-gram is a context of n - 1 tokens and a token that follows it. Wherever the context
        # equals that of the next token, the token that follows it is excluded.
        positions = tf.range(tf.shape(ids)[1])
        is_repeated = (positions >= self.size - 1) & (positions < length) & (ids != special_ids.end)
        for back in range(1, self.size):
            latest = tf.gather(ids, tf.maximum(length - back, 0), axis=1)  # [R]
            is_repeated &= tf.roll(ids, back, axis=1) == latest[:, None]
        return _lower(scores, ids, tf.where(is_repeated, -np.inf, np.inf))


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty(Constraint):
    """Constraint that multiplies the log-probability of tokens that occurred before.

    After Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model", section 4.1, who
    divide logits; log-probabilities, unlike logits, do not depend on a constant offset.

    Args:
        factor: Number of at least 1. A factor of 1 has no effect; CTRL uses 1.2.

    >>> penalty = RepetitionPenalty(1.5)
    >>> scores, ids = tf.constant([[-1.0, -1.0, -2.0]]), tf.constant([[2, 0]])
    >>> penalty.adjust(scores, ids, length=1, special_ids=SpecialIds()).numpy()
    array([[-1., -1., -3.]], dtype=float32)
    """

    factor: float

    def __post_init__(self) -> None:
        require_at_least_one("factor", self.factor)

    def adjust(
        self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, special_ids: SpecialIds
    ) -> tf.Tensor:
        is_there = tf.range(tf.shape(ids)[1]) < length  # [T]
        lowered = self.factor * tf.gather(scores, ids, axis=1, batch_dims=1)
        return _lower(scores, ids, tf.where(is_there, lowered, np.inf))


def _lower(scores: tf.Tensor, ids: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns scores `[R, V]` with those of tokens `ids` `[R, K]` lowered to `values` `[R, K]`.

    A value above a token's score changes nothing; of several for one token the lowest counts.
    """
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(ids))
    return tf.tensor_scatter_nd_min(scores, tf.stack([rows, ids], axis=-1), values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """Minimum and maximum length of hypotheses, absolute and relative to the source.

    Lengths count the chosen tokens, the end id included and a forced prefix excluded. A hypothesis
    of maximum length is forced to end; one below its minimum cannot end. The defaults, 50 tokens
    more than the source, are those of Vaswani et al. 2017.

    Args:
        maximum: Maximum length.
        maximum_ratio: Maximum length relative to the number of source tokens, plus
            `maximum_margin`; None to ignore the source. For a model without a source, the forced
            prefix (its prompt) counts as the source.
        maximum_margin: Tokens added to the relative maximum.
        minimum: Minimum length; 1 allows an empty text, the end id alone.
        minimum_ratio: Minimum length relative to the number of source tokens.

    >>> limits = LengthLimits(maximum=100, maximum_ratio=1.5, maximum_margin=5)
    >>> limits.maxima(tf.constant([4, 200])).numpy()
    array([ 11, 100], dtype=int32)
    """

    maximum: int = 256
    maximum_ratio: float | None = 1.0
    maximum_margin: int = 50
    minimum: int = 1
    minimum_ratio: float = 0.0

    def __post_init__(self) -> None:
        require_positive_integer("maximum", self.maximum)
        require_positive_integer("minimum", self.minimum)
        if self.maximum_ratio is not None:
            require_not_negative("maximum_ratio", self.maximum_ratio)
        require_integer("maximum_margin", self.maximum_margin, 0)
        require_not_negative("minimum_ratio", self.minimum_ratio)
        if self.minimum > self.maximum:
            raise ArgumentError("minimum", f"at most `maximum`, {self.maximum}", self.minimum)

    def maxima(self, source_tokens: tf.Tensor) -> tf.Tensor:
        """Returns the maximum length for each number of source tokens, int32."""
        if self.maximum_ratio is None:
            return tf.fill(tf.shape(source_tokens), self.maximum)
        relative = _scale(self.maximum_ratio, source_tokens) + self.maximum_margin
        return tf.clip_by_value(relative, 1, self.maximum)

    def bounds(self, source_tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the minimum and maximum length for each number of source tokens."""
        maxima = self.maxima(source_tokens)
        minima = tf.maximum(self.minimum, _scale(self.minimum_ratio, source_tokens))
        return tf.minimum(minima, maxima), maxima


def _scale(ratio: float, tokens: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.floor(ratio * tf.cast(tokens, tf.float32)), tf.int32)


class Candidates(NamedTuple):
    """Possible next tokens, best first, all `[R, K]`."""

    tokens: tf.Tensor  # int32, arbitrary where the score is -inf
    scores: tf.Tensor  # by which a search chooses; -inf where fewer than K are possible
    log_probabilities: tf.Tensor  # under the model


@dataclasses.dataclass(frozen=True, eq=False)
class LogitsProcessor:
    """Conversion of logits to the scores of the next token, shared by all searches.

    It forbids padding and start ids, forces the prefix, keeps the length limits and applies the
    constraints.
    """

    constraints: Sequence[Constraint]  # applied in this order
    minima: tf.Tensor  # [R], minimum numbers of chosen tokens
    maxima: tf.Tensor  # [R], maximum numbers of chosen tokens
    prefix: tf.Tensor | None  # [R, P], padded tokens that the hypotheses must begin with
    prefix_lengths: tf.Tensor  # [R], zeros without a prefix
    special_ids: SpecialIds

    def is_forced(self, length: tf.Tensor) -> tf.Tensor:
        """Returns whether the token after the first `length` is in the prefix, boolean `[R]`."""
        return length < self.prefix_lengths

    def without_forced(self, scores: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns scores `[R, K]` in which a forced token has score 0."""
        if self.prefix is None:
            return scores
        is_forced = self.is_forced(length)[:, None]
        return tf.where(is_forced & (scores > MINUS_INFINITY), 0.0, scores)

    def top_k(self, logits: tf.Tensor, ids: tf.Tensor, length: tf.Tensor, k: int) -> Candidates:
        """Returns the `k` best candidates, V at most, by the scores of `process`.

        Without constraints it normalizes only the chosen logits, because a log-softmax shifts all
        logits `[R, V]` of a row by the same number.
        """
        size = logits.shape[1]
        forbidden = self._forbidden_ids(length, size)
        largest = tf.reduce_max(logits, axis=1, keepdims=True)
        total = tf.reduce_sum(tf.exp(logits - largest), axis=1, keepdims=True)
        log_sum = largest + tf.math.log(total)  # [R, 1]
        scores = logits
        if self.constraints:
            scores = self._constrain(forbid(logits - log_sum, forbidden), ids, length)
        scores, tokens = top_k(scores, k if size is None else min(k, size), forbidden)
        if not self.constraints:
            scores -= log_sum
        is_decided, only = self._forced_tokens(scores[:, 0], length)
        is_decided = is_decided[:, None]
        tokens = tf.where(is_decided, only, tokens)
        own = tf.gather(logits, tokens, axis=1, batch_dims=1) - log_sum
        is_first = tf.range(tf.shape(tokens)[1]) == 0  # a forced token is the only candidate
        scores = tf.where(is_decided, tf.where(is_first, own, MINUS_INFINITY), scores)
        return Candidates(tokens, scores, own)

    def process(self, log_probabilities: tf.Tensor, ids: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns the scores `[R, V]` of the next token; -inf for a token that is not allowed.

        `log_probabilities` `[R, V]` are the model's, `ids` `[R, T]` the first `length` tokens.
        """
        forbidden = self._forbidden_ids(length, log_probabilities.shape[1])
        scores = self._constrain(forbid(log_probabilities, forbidden), ids, length)
        is_decided, only = self._forced_tokens(tf.reduce_max(scores, axis=1), length)
        is_only = tf.range(tf.shape(scores)[1]) == only
        decided = tf.where(is_only, log_probabilities, MINUS_INFINITY)
        return tf.where(is_decided[:, None], decided, scores)

    def _forbidden_ids(self, length: tf.Tensor, size: int | None) -> "list[ForbiddenIds]":
        """Returns the special ids that cannot come next: padding, start, and end if it is early."""
        special = self.special_ids
        always = {special.padding, special.start} - {special.end}
        ids = sorted({*always, special.end})
        if size is not None and ids[-1] >= size:
            raise UserError(f"The special ids must be below {size}, the logits; got {special}.")
        is_early = (self._new_length(length) < self.minima)[:, None]  # [R, 1]
        forbidden = []
        for block in sorted({number // _BLOCK for number in ids}):
            of_block = [number for number in ids if number // _BLOCK == block]
            tokens = np.arange(of_block[0], of_block[-1] + 1)
            is_forbidden = tf.constant(np.isin(tokens, list(always))[None])  # [1, H]
            if special.end in of_block:
                is_forbidden |= is_early & (tokens == special.end)
            forbidden.append(ForbiddenIds(of_block[0], is_forbidden))
        return forbidden

    def _constrain(self, scores: tf.Tensor, ids: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        for constraint in self.constraints:
            scores = constraint.adjust(scores, ids, length, self.special_ids)
        return scores

    def _forced_tokens(
        self, best: tf.Tensor, length: tf.Tensor
    ) -> tuple[tf.Tensor, int | tf.Tensor]:
        """Returns which rows `[R]`, of `best` scores `[R]`, have only one token, and this token."""
        end = self.special_ids.end
        is_decided = (self._new_length(length) >= self.maxima) | (best <= MINUS_INFINITY)
        if self.prefix is None:
            return is_decided, end
        is_forced = self.is_forced(length)
        padded = tf.pad(self.prefix, [[0, 0], [0, 1]])
        following = tf.gather(padded, tf.minimum(length, tf.shape(self.prefix)[1]), axis=1)  # [R]
        return is_decided | is_forced, tf.where(is_forced, following, end)[:, None]

    def _new_length(self, length: tf.Tensor) -> tf.Tensor:
        """Returns the number of chosen tokens after the next one, `[R]`."""
        return length + 1 - self.prefix_lengths


#: Scores of a block: about the root of a vocabulary's size, so that both passes are short.
_BLOCK = 64


class ForbiddenIds(NamedTuple):
    """Forbidden tokens among H consecutive ids of one block; `is_forbidden` is `[R or 1, H]`."""

    first: int
    is_forbidden: tf.Tensor


def forbid(scores: tf.Tensor, forbidden: Iterable[ForbiddenIds]) -> tf.Tensor:
    """Returns scores `[R, V]` with -inf for forbidden ids, which are in ascending order."""
    replaced = {}
    for first, is_forbidden in forbidden:
        old = scores[:, first : first + is_forbidden.shape[1]]
        replaced[first] = tf.where(is_forbidden, MINUS_INFINITY, old)
    return _replace_columns(scores, replaced)


def _replace_columns(table: tf.Tensor, replaced: Mapping[int, tf.Tensor]) -> tf.Tensor:
    """Returns `table` with other columns, given by the number of the first, in ascending order."""
    parts, end = [], 0
    for first, columns in replaced.items():
        if first > end:
            parts.append(table[:, end:first])
        parts.append(columns)
        end = first + columns.shape[1]
    return tf.concat([*parts, table[:, end:]], axis=1)


def top_k(
    scores: tf.Tensor, k: int, forbidden: Sequence[ForbiddenIds]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the `k` largest scores of each row and their ids, both `[R, k]`.

    The result is that of `tf.math.top_k(forbid(scores, forbidden), k)`, with the lowest id first
    among equals. `tf.math.top_k` compares every score with the largest so far; here, one pass at
    the speed of memory computes the maxima of blocks, and only the `k` blocks with the largest
    maxima are searched. Forbidden ids are replaced in their own blocks, not in all scores.

    There is one `ForbiddenIds` for each block that has any, in ascending order.

    >>> scores = tf.constant([[9.0, 1.0, 4.0, 1.0]])
    >>> values, ids = top_k(scores, 2, [ForbiddenIds(0, tf.constant([[True]]))])
    >>> ids.numpy()
    array([[2, 1]], dtype=int32)
    """
    size = scores.shape[1]
    if size is None or size <= _BLOCK * k:
        return _exact_top_k(forbid(scores, forbidden), k)
    num_blocks = -(-size // _BLOCK)
    if size % _BLOCK:
        padding = [[0, 0], [0, num_blocks * _BLOCK - size]]
        scores = tf.pad(scores, padding, constant_values=-np.inf)
    blocks = tf.reshape(scores, [-1, num_blocks, _BLOCK])
    replaced, maxima = {}, {}
    for first, is_forbidden in forbidden:
        block, place = divmod(first, _BLOCK)
        values = forbid(blocks[:, block], [ForbiddenIds(place, is_forbidden)])  # [R, BLOCK]
        replaced[block] = values
        maxima[block] = tf.reduce_max(values, axis=1, keepdims=True)
    of_blocks = _replace_columns(tf.reduce_max(blocks, axis=2), maxima)  # [R, V / BLOCK]
    _, best = _exact_top_k(of_blocks, k)  # [R, k]
    if k > 1:
        best = tf.sort(best)  # so that the lowest id comes first among equals
    kept = tf.gather(blocks, best, batch_dims=1)  # [R, k, BLOCK]
    for block, values in replaced.items():
        kept = tf.where((best == block)[..., None], values[:, None], kept)
    values, places = _exact_top_k(tf.reshape(kept, [-1, k * _BLOCK]), k)
    chosen = best if k == 1 else tf.gather(best, places // _BLOCK, batch_dims=1)
    return values, chosen * _BLOCK + places % _BLOCK


def _exact_top_k(scores: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    if k > 1:
        return tf.math.top_k(scores, k)
    place = tf.argmax(scores, axis=1, output_type=tf.int32)[:, None]
    return tf.gather(scores, place, batch_dims=1), place
