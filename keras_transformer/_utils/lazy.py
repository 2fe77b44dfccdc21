"""Public names of a package that are imported on first use (PEP 562)."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any


def import_lazily(package: str, names: Mapping[str, str]) -> None:
    """Gives a package the functions `__getattr__` and `__dir__`, which import names on first use.

    Args:
        package: Name of the package, its `__name__`.
        names: The names that each module of the package defines, separated by spaces.
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
