"""Old tokens made less likely."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_positive
from keras_transformer.decoding.controls.control import Control, lower


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
