"""Labeled texts for classification: a corpus whose labels are checked."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import Corpus, Example, Tally
from keras_transformer.data.corpora.corpus_report import CorpusReport

# No task has more classes, but the wrong column has more different values.
_MAX_LABELS = 10_000
_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class LabeledCorpus(Corpus):
    """Texts with labels: a corpus with the columns `text` and `label` whose labels are checked.

    `open_corpus` wraps every corpus with these columns, such as a TSV file, in this class.

    Args:
        corpus: A corpus with the columns `("text", "label")`, such as a `TsvCorpus` or a
            `JsonLinesCorpus`.
        labels: The labels that may occur. Give those of the training corpus to the validation
            corpus. Defaults to the labels in the corpus, which must then be two or more.
        integer_labels: Boolean. Whether every label must be an integer. Defaults to False.

    >>> from keras_transformer.data import MemoryCorpus
    >>> reviews = [("A delight.", "good"), ("A waste of time.", "bad")]
    >>> training = LabeledCorpus(MemoryCorpus(reviews, columns=("text", "label")))
    >>> training.labels
    ('bad', 'good')
    """

    columns: tuple[str, ...] = ("text", "label")

    def __init__(
        self, corpus: Corpus, labels: Iterable[object] | None = None, integer_labels: bool = False
    ) -> None:
        if corpus.columns != self.columns:
            raise UserError(f"`corpus` must have the columns {self.columns}; got {corpus.columns}.")
        self.name: str = corpus.name
        self._corpus = corpus
        self._given_labels = None if labels is None else tuple(map(str, labels))
        self._found_labels: tuple[str, ...] | None = None
        self._integer_labels = bool(integer_labels)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files of the corpus; its name if it has no files."""
        return getattr(self._corpus, "files", (self.name,))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in order: class n is `labels[n]`."""
        if self._given_labels is not None:
            return self._given_labels
        if self._found_labels is None:
            for _ in self:
                pass
        return self._found_labels or ()

    def read(self, tally: Tally) -> Iterator[Example]:
        found: set[str] = set()
        for example in self._corpus.read(tally):
            label = example[1]
            if label not in found:
                self._check_label(label, tally)
                found.add(label)
                if len(found) > _MAX_LABELS:
                    problem = f"more than {_MAX_LABELS:,} different labels, here {label!r}."
                    fix = "Check which column contains the label."
                    raise UserError(problem, where=tally.where, fix=fix)
            yield example
        self._found_labels = tuple(sorted(found, key=int if self._integer_labels else None))

    def check(self) -> CorpusReport:
        self._corpus.fingerprint()  # from here on, changes of the files are errors
        report = super().check()
        if len(self.labels) < 2:
            problem = f"all {report.examples:,} examples have the label {', '.join(self.labels)!r}."
            raise UserError(problem, where=self.name, fix="A classifier needs at least two labels.")
        return report

    def fingerprint(self) -> str:
        content = [self._corpus.fingerprint(), self._given_labels, self._integer_labels]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def _check_label(self, label: str, tally: Tally) -> None:
        if self._integer_labels and not _INTEGER.fullmatch(label):
            problem = f"the label must be an integer; got {label!r}."
            fix = "Correct it, or set `integer_labels` to False."
            raise UserError(problem, where=tally.where, fix=fix)
        if self._given_labels is not None and label not in self._given_labels:
            close = difflib.get_close_matches(label, self._given_labels, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            known = ", ".join(map(repr, self._given_labels[:20]))
            problem = f"unknown label {label!r}; the training corpus has {known}."
            fix = f"{hint}Correct it, or add examples of it to the training corpus."
            raise UserError(problem, where=tally.where, fix=fix)
