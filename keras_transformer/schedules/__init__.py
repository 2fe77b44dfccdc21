"""Learning rate schedules with linear warm-up: one file per schedule, registered by name."""

from keras_transformer._utils.registry import import_members
from keras_transformer.schedules.base import (
    SCHEDULES,
    FiniteSchedule,
    WarmUpSchedule,
    register_schedule,
)
from keras_transformer.schedules.cosine import CosineDecay
from keras_transformer.schedules.inverse_square_root import InverseSquareRootDecay
from keras_transformer.schedules.linear import LinearDecay

import_members(__name__, __path__)

__all__ = [
    "SCHEDULES",
    "CosineDecay",
    "FiniteSchedule",
    "InverseSquareRootDecay",
    "LinearDecay",
    "WarmUpSchedule",
    "register_schedule",
]
