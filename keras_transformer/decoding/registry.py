"""Registry of the searches. TensorFlow is imported only when a search is used.

The file `<name>_search.py` of this package registers the search `<name>` with `register_search`.
Nothing else needs to change for a new search.
"""

import importlib
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.registry import Kind, register

if TYPE_CHECKING:
    from keras_transformer.decoding.search import Search

_SUFFIX = "_search"

#: Classes of the searches that have been imported, by name.
SEARCHES: "dict[str, type[Search]]" = {}


def register_search(name: str) -> Callable[[Kind], Kind]:
    """Returns a class decorator that registers a search under `name`."""
    return register(SEARCHES, name)


def registered_searches() -> list[str]:
    """Returns the names of all searches, sorted.

    >>> registered_searches()
    ['beam', 'greedy', 'sampling']
    """
    folder = pathlib.Path(__file__).parent
    names = [path.stem.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}.py")]
    return sorted({*names, *SEARCHES})


def search_class(name: str) -> "type[Search]":
    """Returns the class of a search.

    >>> search_class("greedy").__name__
    'GreedySearch'
    """
    if require_choice("search", name, registered_searches()) not in SEARCHES:
        importlib.import_module(f"{__package__}.{name}{_SUFFIX}")
    return SEARCHES[name]
