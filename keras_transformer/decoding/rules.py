"""What may come next."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.likeliest import hide_first, likeliest
from keras_transformer.text import END_ID, PADDING_ID, START_ID
from keras_transformer.text.special_ids import FIRST_PIECE_ID

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
