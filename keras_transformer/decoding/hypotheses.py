"""What a search finds."""

from typing import NamedTuple

import tensorflow as tf


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
