"""Attention mechanisms: one a file, each registered by its own file."""

import importlib
import pkgutil

from keras_transformer.layers.attention.mechanism import (
    MECHANISMS,
    AttentionMechanism,
    make_mechanism,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["MECHANISMS", "AttentionMechanism", "make_mechanism"]
