"""Registry of the built-in corpora, and a shuffle that they share."""

import dataclasses
import os
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.files import atomic_file
from keras_transformer._utils.registry import register
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import Corpus

_Corpus = TypeVar("_Corpus", bound=Corpus, covariant=True)
_Value = TypeVar("_Value")


@dataclasses.dataclass(frozen=True)
class CorpusSplits(Generic[_Corpus]):
    """Corpora for training, validation and tests.

    Attributes:
        train: The training corpus.
        validation: The validation corpus, or None.
        tests: The test corpora by name.
    """

    train: _Corpus
    validation: _Corpus | None
    tests: Mapping[str, _Corpus]

    def write(self, directory: Path) -> None:
        """Writes each split to a TSV file, such as `train.tsv`, atomically; texts have no tabs."""
        os.makedirs(directory, exist_ok=True)
        splits = {"train": self.train, "validation": self.validation, **self.tests}
        for name, corpus in splits.items():
            if corpus is not None:
                path = os.path.join(directory, f"{name.replace(' ', '_')}.tsv")
                with atomic_file(path) as file:
                    file.writelines("\t".join(example) + "\n" for example in corpus)


_Maker = TypeVar("_Maker", bound=Callable[..., CorpusSplits[Corpus]])

#: Functions with an argument `training_pairs`, by the names of the corpora.
BUILTIN_CORPORA: dict[str, Callable[..., CorpusSplits[Corpus]]] = {}


def register_builtin(name: str) -> Callable[[_Maker], _Maker]:
    """Returns a decorator that registers a function with an argument `training_pairs` by name."""
    return register(BUILTIN_CORPORA, name)  # pyright: ignore[reportReturnType]


def open_builtin(name: str, training_pairs: int = 20_000) -> CorpusSplits[Corpus]:
    """Returns the splits of a built-in corpus.

    Args:
        name: A name in `BUILTIN_CORPORA`.
        training_pairs: Number of training pairs.
    """
    make = BUILTIN_CORPORA[require_choice("name", name, BUILTIN_CORPORA)]
    return make(training_pairs=training_pairs)


def shuffled(values: Iterable[_Value], generator: random.Random) -> list[_Value]:
    """Returns the values in random order, the same in every version of Python."""
    # Only `random()` of a generator is guaranteed to stay the same in later versions.
    return [value for _, value in sorted((generator.random(), value) for value in values)]
