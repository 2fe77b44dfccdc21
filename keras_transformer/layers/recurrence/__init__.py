"""Recurrent layers: cells, one a file, each registered by its own file; and what runs them."""

import importlib
import pkgutil

from keras_transformer.layers.recurrence.cell import CELLS, RecurrentCell, make_cell

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["CELLS", "RecurrentCell", "make_cell"]
