"""Ids that do not represent text: padding, unknown, start and end. Imports no TensorFlow."""

import dataclasses
import functools

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.errors import UserError

#: Labels of the special ids in listings and pictures. Texts are never compared with them.
SPECIAL_NAMES = ("<padding>", "<unknown>", "<start>", "<end>")


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """Special ids of a tokenizer, which its model, search and export share.

    One id may have several roles: many pretrained models start the target with the padding id (T5,
    Marian) or with the end id (BART). The padding id must differ from the end and unknown ids.

    Args:
        padding: Fills the rows of a batch.
        unknown: Represents text that the vocabulary cannot spell.
        start: First input of the decoder.
        end: Ends every source and target.

    >>> SpecialIds(padding=9, start=9, end=0).ids
    (0, 1, 9)
    >>> SpecialIds().names
    {0: '<padding>', 1: '<unknown>', 2: '<start>', 3: '<end>'}
    """

    padding: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = require_integer(field.name, getattr(self, field.name), minimum=0)
            object.__setattr__(self, field.name, value)
        for name in ("end", "unknown"):
            if getattr(self, name) == self.padding:
                problem = f"`padding` and `{name}` must differ; both are {self.padding}."
                raise UserError(f"The special ids {problem}")

    @functools.cached_property
    def ids(self) -> tuple[int, ...]:
        """The distinct special ids in ascending order."""
        return tuple(sorted({self.padding, self.unknown, self.start, self.end}))

    @property
    def names(self) -> dict[int, str]:
        """The label of each special id; an id with several roles has its first label."""
        names: dict[int, str] = {}
        for field, name in zip(dataclasses.fields(self), SPECIAL_NAMES, strict=True):
            names.setdefault(getattr(self, field.name), name)
        return names
