"""Tokens that must not come."""

import dataclasses
import numbers

import numpy as np
import tensorflow as tf

from keras_transformer.checks import require_integer
from keras_transformer.decoding.controls.control import Control
from keras_transformer.text import END_ID


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
