"""What may come next."""

import dataclasses
import numbers
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
)
from keras_transformer.text import END_ID, PADDING_ID, START_ID
from keras_transformer.text.tokenizer import FIRST_PIECE_ID


class Control:
    """Changes the log-probabilities by which a search chooses the next token.

    A control sees the tokens so far and nothing else of the search, so each works with every
    search. A new one is a new file with a frozen dataclass that answers `adjust`.
    """

    def adjust(self, scores, ids, length):
        """The scores `[R, V]` with the control's changes; -inf is never chosen.

        Runs in the graph, plain and under XLA.

        Args:
            scores: log-probabilities of the next token, as other controls have left them.
            ids: int32 `[R, T]`, the tokens so far, padded.
            length: a scalar tensor, how many they are.
        """
        raise NotImplementedError


def lower(scores, ids, values):
    """Scores `[R, V]`, of which those of tokens `ids` `[R, K]` are lowered to `values` `[R, K]`.

    A value above a token's score leaves it as it is; of several for one token the lowest counts.
    """
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(ids))
    return tf.tensor_scatter_nd_min(scores, tf.stack([rows, ids], axis=-1), values)


@dataclasses.dataclass(frozen=True)
class ForbiddenTokens(Control):
    """Keeps a search from choosing certain tokens, such as UNKNOWN.

    Attributes:
        ids: their ids, one or several.

    >>> ForbiddenTokens([1]).adjust(tf.zeros([1, 3]), ids=None, length=0).numpy()
    array([[  0., -inf,   0.]], dtype=float32)
    """

    ids: tuple

    def __post_init__(self):
        is_one = isinstance(self.ids, numbers.Integral)
        object.__setattr__(self, "ids", (self.ids,) if is_one else tuple(self.ids))
        for number in self.ids:
            require_integer("ids", number, 0)
            if number == END_ID:
                raise ValueError(
                    f"`ids` must not hold {END_ID}, the END token: no hypothesis would end. To "
                    "have longer ones, raise the `minimum` of `LengthLimits`."
                )

    def adjust(self, scores, ids, length):
        size = scores.shape[-1]
        beyond = [number for number in self.ids if number >= size]
        if beyond:
            raise ValueError(f"`ids` must be below {size}, the model's vocabulary; got {beyond}.")
        is_forbidden = np.isin(np.arange(size), self.ids)
        return tf.where(is_forbidden, -np.inf, scores)


@dataclasses.dataclass(frozen=True)
class NoRepeatNgram(Control):
    """Keeps a search from choosing a token that would repeat `size` tokens in a row.

    Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.5: they
    forbid trigrams.

    END is never kept from coming, so that every hypothesis can end.

    Attributes:
        size: of the n-grams that may come only once.

    >>> once = NoRepeatNgram(2)
    >>> scores = once.adjust(tf.zeros([1, 6]), ids=tf.constant([[4, 5, 4, 0]]), length=3)
    >>> scores.numpy()  # 5 came after the last 4
    array([[  0.,   0.,   0.,   0.,   0., -inf]], dtype=float32)
    """

    size: int

    def __post_init__(self):
        require_positive_integer("size", self.size)

    def adjust(self, scores, ids, length):
        # An n-gram is a context of n - 1 tokens and the token after it. Wherever the context is
        # that of the next token, the token after it is out.
        capacity = tf.shape(ids)[1]
        positions = tf.range(capacity)
        is_repeated = (positions >= self.size - 1) & (positions < length) & (ids != END_ID)
        for back in range(1, self.size):
            latest = tf.gather(ids, tf.maximum(length - back, 0), axis=1)  # [R]
            is_repeated &= tf.roll(ids, back, axis=1) == latest[:, None]
        return lower(scores, ids, tf.where(is_repeated, -np.inf, np.inf))


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty(Control):
    """Multiplies the log-probability of tokens that have come already.

    After Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model", section 4.1, who
    divide logits; log-probabilities do not depend on where the logits' zero is.

    Attributes:
        factor: at least 1, which changes nothing; CTRL uses 1.2.

    >>> old = tf.constant([[2, 0]])
    >>> RepetitionPenalty(1.5).adjust(tf.constant([[-1.0, -1.0, -2.0]]), old, length=1).numpy()
    array([[-1., -1., -3.]], dtype=float32)
    """

    factor: float

    def __post_init__(self):
        require_positive("factor", self.factor)
        if self.factor < 1:
            raise ValueError(
                f"`factor` must be at least 1, which changes nothing; got {self.factor}."
            )

    def adjust(self, scores, ids, length):
        is_there = tf.range(tf.shape(ids)[1]) < length  # [T]
        lowered = self.factor * tf.gather(scores, ids, axis=1, batch_dims=1)
        return lower(scores, ids, tf.where(is_there, lowered, np.inf))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthLimits:
    """The most and the fewest tokens of a hypothesis, absolutely and relative to its source.

    Lengths count the tokens that are chosen, the END token among them and a forced prefix not. At
    its maximum length a hypothesis is made to end; before its minimum it is kept from ending.

    The default is that of Vaswani et al. 2017: as many tokens as the source has, and 50 more.

    Attributes:
        maximum: never more tokens than this.
        maximum_ratio, maximum_margin: nor more than the ratio times the tokens of the source, plus
            the margin; a ratio of None leaves the source out of it. (A model without a source takes
            the forced prefix, its prompt, for one.)
        minimum: never fewer tokens than this; 1 allows an empty text, END alone.
        minimum_ratio: nor fewer than the ratio times the tokens of the source.

    >>> limits = LengthLimits(maximum=100, maximum_ratio=1.5, maximum_margin=5)
    >>> limits.rows(tf.constant([4, 200]))[1].numpy()
    array([ 11, 100], dtype=int32)
    """

    maximum: int = 256
    maximum_ratio: float | None = 1.0
    maximum_margin: int = 50
    minimum: int = 1
    minimum_ratio: float = 0.0

    def __post_init__(self):
        require_positive_integer("maximum", self.maximum)
        require_positive_integer("minimum", self.minimum)
        if self.maximum_ratio is not None:
            require_not_negative("maximum_ratio", self.maximum_ratio)
        require_integer("maximum_margin", self.maximum_margin, 0)
        require_not_negative("minimum_ratio", self.minimum_ratio)
        if self.minimum > self.maximum:
            raise ValueError(
                f"`minimum` must not be more than `maximum`; got {self.minimum} and {self.maximum}."
            )

    def longest(self, source_tokens):
        """The maximum for sources of `source_tokens`, an integer tensor of any shape."""
        if self.maximum_ratio is None:
            return tf.fill(tf.shape(source_tokens), self.maximum)
        relative = _times(self.maximum_ratio, source_tokens) + self.maximum_margin
        return tf.clip_by_value(relative, 1, self.maximum)

    def rows(self, source_tokens):
        """The minima and maxima of rows whose sources have so many tokens, all int32 `[B]`."""
        maxima = self.longest(source_tokens)
        minima = tf.maximum(self.minimum, _times(self.minimum_ratio, source_tokens))
        return tf.minimum(minima, maxima), maxima


def _times(ratio, tokens):
    return tf.cast(tf.floor(ratio * tf.cast(tokens, tf.float32)), tf.int32)


#: Numbers of a block: about the root of a vocabulary's size, so that both passes are short.
BLOCK = 64


def likeliest(scores, count, hidden):
    """The `count` largest of each row of `scores` `[R, V]`, as values and places `[R, count]`.

    As `tf.math.top_k`, which on equal numbers takes the first as well, but compares every number
    with the largest so far. Here one pass at the speed of memory takes the maxima of blocks: the
    largest numbers must be in the `count` blocks of the largest maxima.

    Args:
        scores: float32 `[R, V]`.
        count: at most V.
        hidden: boolean `[R, H]`, which of the first H numbers not to look at: they count as -inf.
            So few that it would be a waste to write all others again beside them.

    >>> scores = tf.constant([[9.0, 1.0, 4.0, 1.0]])
    >>> values, places = likeliest(scores, count=2, hidden=tf.constant([[True]]))
    >>> places.numpy()
    array([[2, 1]], dtype=int32)
    """
    size = scores.shape[1]
    if size is None or size <= BLOCK * count:
        return _largest(hide_first(scores, hidden), count)
    number = -(-size // BLOCK)
    if size % BLOCK:
        padding = [[0, 0], [0, number * BLOCK - size]]
        scores = tf.pad(scores, padding, constant_values=-np.inf)
    blocks = tf.reshape(scores, [-1, number, BLOCK])
    first = hide_first(blocks[:, 0], hidden)  # [R, BLOCK]
    maxima = tf.reduce_max(blocks, axis=2)  # [R, V / BLOCK]
    maxima = tf.concat([tf.reduce_max(first, axis=1, keepdims=True), maxima[:, 1:]], axis=1)
    _, best = _largest(maxima, count)  # [R, count]
    if count > 1:
        best = tf.sort(best)  # so that of equal numbers the first comes first
    kept = tf.gather(blocks, best, batch_dims=1)  # [R, count, BLOCK]
    kept = tf.where((best == 0)[..., None], first[:, None], kept)
    values, places = _largest(tf.reshape(kept, [-1, count * BLOCK]), count)
    chosen = best if count == 1 else tf.gather(best, places // BLOCK, batch_dims=1)
    return values, chosen * BLOCK + places % BLOCK


def hide_first(scores, hidden):
    """Scores `[R, V]`, of which the first H are -inf where `hidden` `[R, H]` says so."""
    number = hidden.shape[1]
    first = tf.where(hidden, -np.inf, scores[:, :number])
    return tf.concat([first, scores[:, number:]], axis=1)


def _largest(scores, count):
    if count > 1:
        return tf.math.top_k(scores, count)
    place = tf.argmax(scores, axis=1, output_type=tf.int32)[:, None]
    return tf.gather(scores, place, batch_dims=1), place


NEVER = -np.inf


class Candidates(NamedTuple):
    """Tokens that may come next, best first, all `[R, K]`.

    Attributes:
        tokens: int32; any where the score is -inf.
        scores: what to choose by, -inf where there are no more that may come.
        log_probabilities: the model's own.
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    log_probabilities: tf.Tensor


class Rules:
    """Everything that decides which token may come next, in one place for all searches.

    Args:
        controls: a sequence of `Control`s.
        minima, maxima: int32 `[R]`, how many tokens may be chosen; see `LengthLimits`.
        prefix: int32 `[R, P]`, padded: tokens that the hypotheses must begin with; or None.
        prefix_lengths: int32 `[R]`; zeros if there is no prefix.
    """

    def __init__(self, controls, minima, maxima, prefix, prefix_lengths):
        self.controls = controls
        self.minima = minima
        self.maxima = maxima
        self.prefix = prefix
        self.prefix_lengths = prefix_lengths

    def is_given(self, length):
        """Whether the token after the first `length` belongs to the prefix, boolean `[R]`."""
        return length < self.prefix_lengths

    def without_given(self, scores, length):
        """Scores `[R, K]` in which a token that is given costs nothing."""
        if self.prefix is None:
            return scores
        return tf.where(self.is_given(length)[:, None] & (scores > NEVER), 0.0, scores)

    def best(self, logits, ids, length, count):
        """The `count` best `Candidates` by `apply`; no more than there are tokens.

        They are found with as few passes over `[R, V]` as will do: a log-softmax moves all logits
        of a row alike, so it is left to those that are chosen.

        Args:
            logits: `[R, V]`, the model's.
            ids, length: see `apply`.
        """
        size = logits.shape[1]
        hidden = self._hidden(length)
        norm = _log_sum(logits)  # [R, 1]
        scores = logits
        if self.controls:
            scores = self._control(hide_first(logits - norm, hidden), ids, length)
        scores, tokens = likeliest(scores, count if size is None else min(count, size), hidden)
        if not self.controls:
            scores -= norm
        is_decided, only = self._decide(scores[:, 0], length)
        is_decided = is_decided[:, None]
        tokens = tf.where(is_decided, only, tokens)
        own = tf.gather(logits, tokens, axis=1, batch_dims=1) - norm
        is_first = tf.range(tf.shape(tokens)[1]) == 0  # where one alone is right, there is no other
        scores = tf.where(is_decided, tf.where(is_first, own, NEVER), scores)
        return Candidates(tokens, scores, own)

    def apply(self, log_probabilities, ids, length):
        """Scores `[R, V]` by which to choose the next token; -inf for what must not come.

        Args:
            log_probabilities: `[R, V]`, the model's.
            ids: int32 `[R, T]`, the tokens so far.
            length: how many they are.
        """
        scores = hide_first(log_probabilities, self._hidden(length))
        scores = self._control(scores, ids, length)
        is_decided, only = self._decide(tf.reduce_max(scores, axis=1), length)
        is_only = tf.range(tf.shape(scores)[1]) == only
        decided = tf.where(is_only, log_probabilities, NEVER)
        return tf.where(is_decided[:, None], decided, scores)

    def _hidden(self, length):
        """Which of the special tokens, the first in every vocabulary, never come: `[R, 4]`."""
        tokens = tf.range(FIRST_PIECE_ID)
        is_too_soon = (self._number(length) < self.minima)[:, None] & (tokens == END_ID)
        return is_too_soon | (tokens == PADDING_ID) | (tokens == START_ID)

    def _control(self, scores, ids, length):
        for control in self.controls:
            scores = control.adjust(scores, ids, length)
        return scores

    def _decide(self, best, length):
        """Where one token alone is right, whatever the controls say: boolean `[R]`; and which.

        Args:
            best: `[R]`, the best score.
            length: how many tokens came before.
        """
        is_decided = (self._number(length) >= self.maxima) | (best == NEVER)
        if self.prefix is None:
            return is_decided, END_ID
        is_given = self.is_given(length)
        only = tf.where(is_given, self._given(length), END_ID)[:, None]  # [R, 1]
        return is_decided | is_given, only

    def _number(self, length):
        """The number of the token to be chosen, `[R]`: how many it makes without the prefix."""
        return length + 1 - self.prefix_lengths

    def _given(self, length):
        """The prefix's token after the first `length`, `[R]`; anything where there is none."""
        room = tf.pad(self.prefix, [[0, 0], [0, 1]])
        return tf.gather(room, tf.minimum(length, tf.shape(self.prefix)[1]), axis=1)


def _log_sum(logits):
    """The logarithm of the sum of the exponentials of each row: `[R, 1]` of `[R, V]`."""
    largest = tf.reduce_max(logits, axis=1, keepdims=True)
    return largest + tf.math.log(tf.reduce_sum(tf.exp(logits - largest), axis=1, keepdims=True))
