"""Registries of variants: each variant is one file of a package and registers itself by name."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from keras_transformer._utils.errors import UserError

Kind = TypeVar("Kind", bound=type)


def register(registry: dict[str, Any], name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that adds a class to `registry` and sets its `registered_name`.

    >>> FRUITS = {}
    >>> @register(FRUITS, "apple")
    ... class Apple: ...
    >>> FRUITS["apple"].registered_name
    'apple'
    """

    def add(kind: Kind) -> Kind:
        if name in registry:
            raise UserError(f"The name {name!r} is taken by {registry[name].__name__}.")
        kind.registered_name = name  # type: ignore[attr-defined]
        registry[name] = kind
        return kind

    return add


def import_members(package: str, path: Iterable[str], skip: Iterable[str] = ()) -> None:
    """Imports the modules of a package, so that the variants in it register themselves.

    `package` and `path` are its `__name__` and `__path__`; modules named in `skip` are left out.
    """
    for module in pkgutil.iter_modules(path):
        if module.name not in skip:
            importlib.import_module(f"{package}.{module.name}")
