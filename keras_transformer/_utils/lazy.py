"""Public names of a package that are imported on first use (PEP 562)."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def import_lazily(package: str, names: Mapping[str, str]) -> None:
    """Gives a package, by its `__name__`, a `__getattr__` and a `__dir__` for names of its modules.

    Each module has a string of names, separated by spaces, that are imported on first use.
    """
    module_of = {name: module for module, listed in names.items() for name in listed.split()}
    content = vars(sys.modules[package])

    def import_name(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{module_of[name]}")
        content[name] = getattr(module, name)
        return content[name]

    content["__getattr__"] = import_name
    content["__dir__"] = lambda: sorted({*content, *module_of})
