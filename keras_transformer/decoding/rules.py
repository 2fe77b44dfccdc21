"""What may come next."""

import numpy as np
import tensorflow as tf

from keras_transformer.text import END_ID, PADDING_ID, START_ID

NEVER = -np.inf


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
        """Scores `[R, V]` in which a token that is given costs nothing."""
        if self.prefix is None:
            return scores
        return tf.where(self.is_given(length)[:, None] & (scores > NEVER), 0.0, scores)

    def apply(self, log_probabilities, ids, length):
        """Scores `[R, V]` by which to choose the next token; -inf for what must not come.

        Args:
            log_probabilities: `[R, V]`, the model's.
            ids: int32 `[R, T]`, the tokens so far.
            length: how many they are.
        """
        tokens = tf.range(tf.shape(log_probabilities)[1])
        number = length + 1 - self.prefix_lengths  # [R], of the token to be chosen
        is_special = (tokens == PADDING_ID) | (tokens == START_ID)
        is_too_soon = (number < self.minima)[:, None] & (tokens == END_ID)
        scores = tf.where(is_special | is_too_soon, NEVER, log_probabilities)
        for control in self.controls:
            scores = control.adjust(scores, ids, length)
        # Where one token alone is right, it is, whatever the controls say.
        is_decided = (number >= self.maxima) | (tf.reduce_max(scores, axis=1) == NEVER)
        only = END_ID
        if self.prefix is not None:
            is_given = self.is_given(length)
            is_decided |= is_given
            only = tf.where(is_given, self._given(length), END_ID)[:, None]  # [R, 1]
        decided = tf.where(tokens == only, log_probabilities, NEVER)
        return tf.where(is_decided[:, None], decided, scores)

    def _given(self, length):
        """The prefix's token after the first `length`, `[R]`; anything where there is none."""
        room = tf.pad(self.prefix, [[0, 0], [0, 1]])
        return tf.gather(room, tf.minimum(length, tf.shape(self.prefix)[1]), axis=1)
