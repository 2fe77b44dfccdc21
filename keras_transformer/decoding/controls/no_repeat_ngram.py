"""No passage twice."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_positive_integer
from keras_transformer.decoding.controls.control import Control, lower
from keras_transformer.text import END_ID


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
