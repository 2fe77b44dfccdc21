"""A corpus that lives in memory."""

import hashlib

from keras_transformer.data.corpora.corpus import COLUMN_SETS, Corpus


class MemoryCorpus(Corpus):
    """Examples made by a program, with the interface of a corpus on disk.

    Args:
        examples: The examples: tuples of `str` with one text for each column, none of them blank.
        columns: `("source", "target")`, `("text",)` or `("text", "label")`.
        name: What messages call the corpus.

    Example:

    >>> corpus = MemoryCorpus([("eins", "one"), ("zwei", "two")])
    >>> len(corpus), list(corpus)[1], corpus.check().lengths["source"].maximum
    (2, ('zwei', 'two'), 4)
    """

    def __init__(self, examples, columns=("source", "target"), name="corpus in memory"):
        self.columns = tuple(columns)
        if self.columns not in COLUMN_SETS:
            raise ValueError(f"`columns` must be one of {COLUMN_SETS}; got {columns!r}.")
        self.name = name
        self._examples = [tuple(example) for example in examples]
        digest = hashlib.sha256(repr(self.columns).encode())
        for number, example in enumerate(self._examples):
            digest.update(self._encode(example, number))
        self._fingerprint = digest.hexdigest()

    def __len__(self):
        return len(self._examples)

    def read(self, tally):
        tally.path = self.name
        for number, example in enumerate(self._examples, start=1):
            tally.line_number = number
            yield example

    def fingerprint(self):
        return self._fingerprint

    def _encode(self, example, number):
        """Returns the example as bytes that no other example shares; raises if it is not one."""
        wanted = f"{len(self.columns)} non-blank strings ({', '.join(self.columns)})"
        is_right = len(example) == len(self.columns) and all(
            isinstance(text, str) and text.strip() and "\0" not in text for text in example
        )
        if not is_right:
            raise ValueError(f"Example {number} must be {wanted} without NUL; got {example!r}.")
        try:
            return "\0".join((*example, "")).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"Example {number} cannot be written as UTF-8: {error}.") from None
