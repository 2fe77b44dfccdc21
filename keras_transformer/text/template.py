"""Special ids that a model expects around a text. Imports no TensorFlow."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_transformer._utils.checks import require_integer


@dataclasses.dataclass(frozen=True)
class Template:
    """Ids before and after those of a text, such as `[CLS] … [SEP]` or `eng_Latn … </s>`.

    For a source, the model reads prefix, text and suffix. For a target, generation begins with the
    start id; then the prefix, such as the code of the target language, is forced.

    Args:
        prefix: Ids before the text. Default: none.
        suffix: Ids after the text. Default: none; a tokenizer's default is its end id.

    >>> Template(prefix=(101,), suffix=(102,)).size
    2
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given: Sequence[Any] = getattr(self, field.name)
            ids = tuple(require_integer(field.name, number, minimum=0) for number in given)
            object.__setattr__(self, field.name, ids)

    @property
    def size(self) -> int:
        """Number of ids that the template adds to a text."""
        return len(self.prefix) + len(self.suffix)

    @property
    def ids(self) -> frozenset[int]:
        """The distinct ids of the template."""
        return frozenset((*self.prefix, *self.suffix))

    def settings(self) -> dict[str, list[int]]:
        """Returns the arguments of the template, for JSON."""
        return {"prefix": list(self.prefix), "suffix": list(self.suffix)}
