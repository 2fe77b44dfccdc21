"""Registry of the built-in corpora, and a shuffle that they share."""

import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import Corpus


@dataclasses.dataclass(frozen=True)
class CorpusSplits:
    """Corpora for training, validation and tests.

    Attributes:
        train: The training corpus.
        validation: The validation corpus, or None.
        tests: The test corpora by name.
    """

    train: Corpus
    validation: Corpus | None
    tests: Mapping[str, Corpus]


_Value = TypeVar("_Value")
_Maker = Callable[[int], CorpusSplits]

#: Functions of the number of training pairs, by the names of the corpora.
BUILTIN_CORPORA: dict[str, _Maker] = {}


def register_builtin(name: str) -> Callable[[_Maker], _Maker]:
    """Returns a decorator that registers a function of the number of training pairs by name."""

    def add(make: _Maker) -> _Maker:
        if name in BUILTIN_CORPORA:
            raise UserError(f"The name {name!r} of a built-in corpus is taken.")
        BUILTIN_CORPORA[name] = make
        return make

    return add


def open_builtin(name: str, training_pairs: int = 20_000) -> CorpusSplits:
    """Returns the splits of a built-in corpus.

    Args:
        name: A name in `BUILTIN_CORPORA`.
        training_pairs: Integer. Number of training pairs. Defaults to 20,000.

    >>> splits = open_builtin("recall", training_pairs=10)
    >>> len(splits.train), list(splits.tests)[0]
    (10, 'distance_8')
    """
    return BUILTIN_CORPORA[require_choice("name", name, BUILTIN_CORPORA)](training_pairs)


def shuffled(values: Iterable[_Value], generator: random.Random) -> list[_Value]:
    """Returns the values in random order, the same in every version of Python.

    Only `random()` of Python's generator is guaranteed to stay the same in later versions.
    """
    return [value for _, value in sorted((generator.random(), value) for value in values)]
