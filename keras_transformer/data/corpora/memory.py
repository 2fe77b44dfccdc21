"""A corpus in memory."""

import hashlib
from collections.abc import Iterable, Iterator

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import COLUMN_SETS, Corpus, Example, Tally


class MemoryCorpus(Corpus):
    """Examples that a program makes, with the interface of a corpus on disk.

    Args:
        examples: Tuples of `str` with one text for each column, none of them blank.
        columns: `("source", "target")`, `("text",)` or `("text", "label")`. Defaults to
            `("source", "target")`.
        name: Name of the corpus in messages.

    >>> corpus = MemoryCorpus([("eins", "one"), ("zwei", "two")])
    >>> len(corpus), list(corpus)[1], corpus.check().lengths["source"].maximum
    (2, ('zwei', 'two'), 4)
    """

    def __init__(
        self,
        examples: Iterable[Iterable[str]],
        columns: Iterable[str] = ("source", "target"),
        name: str = "corpus in memory",
    ) -> None:
        self.columns: tuple[str, ...] = tuple(columns)
        if self.columns not in COLUMN_SETS:
            raise UserError(f"`columns` must be one of {COLUMN_SETS}; got {columns!r}.")
        self.name: str = name
        self._examples: list[Example] = [tuple(example) for example in examples]
        digest = hashlib.sha256(repr(self.columns).encode())
        for number, example in enumerate(self._examples):
            digest.update(self._encode(example, number))
        self._fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._examples)

    def read(self, tally: Tally) -> Iterator[Example]:
        tally.path = self.name
        for number, example in enumerate(self._examples, start=1):
            tally.line_number = number
            yield example

    def fingerprint(self) -> str:
        return self._fingerprint

    def _encode(self, example: Example, number: int) -> bytes:
        """Returns the example as bytes that no other example shares; raises if it is invalid."""
        is_valid = len(example) == len(self.columns) and all(
            isinstance(text, str) and text.strip() and "\0" not in text for text in example
        )
        if not is_valid:
            raise UserError(
                f"Example {number} must be {len(self.columns)} non-blank strings "
                f"({', '.join(self.columns)}) without NUL; got {example!r}."
            )
        try:
            return "\0".join((*example, "")).encode()
        except UnicodeEncodeError as error:
            raise UserError(f"Example {number} cannot be encoded as UTF-8: {error}.") from None
