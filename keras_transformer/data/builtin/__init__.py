"""Built-in corpora, made by a program: one file each, found automatically.

A file defines a function of the number of training pairs that returns `CorpusSplits`, and registers
it with `register_builtin`. Imports no TensorFlow.
"""

from keras_transformer._utils.registry import import_members
from keras_transformer.data.builtin.dates import DatesCorpus, make_dates
from keras_transformer.data.builtin.recall import RecallCorpus, make_recall
from keras_transformer.data.builtin.registry import (
    BUILTIN_CORPORA,
    CorpusSplits,
    open_builtin,
    register_builtin,
)

import_members(__name__, __path__)

__all__ = [
    "BUILTIN_CORPORA",
    "CorpusSplits",
    "DatesCorpus",
    "RecallCorpus",
    "make_dates",
    "make_recall",
    "open_builtin",
    "register_builtin",
]
