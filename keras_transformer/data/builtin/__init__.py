"""Built-in corpora, made by a program: one file each, found automatically.

A file registers a function that returns `CorpusSplits`; see `register_builtin`. No TensorFlow.
"""

from keras_transformer._utils.registry import import_members
from keras_transformer.data.builtin.dates import make_dates
from keras_transformer.data.builtin.recall import make_recall
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
    "make_dates",
    "make_recall",
    "open_builtin",
    "register_builtin",
]
