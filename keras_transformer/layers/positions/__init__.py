"""Schemes of positions that act on embeddings: one a file, each registered by its own file."""

import importlib
import pkgutil

from keras_transformer.layers.positions.scheme import SCHEMES, PositionEncoding, make_positions

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["SCHEMES", "PositionEncoding", "make_positions"]
