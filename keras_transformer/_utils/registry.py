"""Registries of variants: each variant is one file of a package and registers itself by name."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import ArgumentError, UserError

Kind = TypeVar("Kind", bound=type)


def register(registry: dict[str, Any], name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that adds a class to `registry` and sets its `registered_name`.

    >>> FRUITS = {}
    >>> @register(FRUITS, "apple")
    ... class Apple: ...
    >>> FRUITS["apple"].registered_name
    'apple'
    """
    require_registered_name(name)

    def add(kind: Kind) -> Kind:
        if name in registry:
            raise UserError(f"The name {name!r} is taken by {registry[name].__name__}.")
        kind.registered_name = name  # type: ignore[attr-defined]
        registry[name] = kind
        return kind

    return add


def require_registered_name(name: Any) -> str:
    """Returns the argument of a decorator `register_…` if it is a name.

    A decorator without parentheses gets the class instead, and would register nothing.
    """
    if not isinstance(name, str) or not name:
        fix = 'Write `@register_…("name")`, with the name in parentheses.'
        raise ArgumentError("name", "the name to register, as text", name, fix=fix)
    return name


class FileRegistry(dict[str, Kind]):
    """Registry of classes in the files `<name>_<what>.py` of a package, imported on first use."""

    def __init__(self, module: str, what: str) -> None:
        """Creates the registry of the package that a module, given by its `__name__`, is in."""
        super().__init__()
        self._package, self._what = module.rpartition(".")[0], what

    def names(self) -> list[str]:
        """Returns the names of all variants, sorted; nothing is imported."""
        suffix = f"_{self._what}"
        modules = [each.name for each in pkgutil.iter_modules(sys.modules[self._package].__path__)]
        files = [name.removesuffix(suffix) for name in modules if name.endswith(suffix)]
        return sorted({*files, *self})

    def find(self, name: str) -> Kind:
        """Returns a variant; its file is imported first."""
        if require_choice(self._what, name, self.names()) not in self:
            importlib.import_module(f"{self._package}.{name}_{self._what}")
        return self[name]


def import_members(package: str, path: Iterable[str], skip: Iterable[str] = ()) -> None:
    """Imports the modules of a package, given by its `__name__` and `__path__`, except `skip`."""
    for module in pkgutil.iter_modules(path):
        if module.name not in skip:
            importlib.import_module(f"{package}.{module.name}")
