"""Texts with labels, for classification."""

import difflib
import hashlib
import json
import re

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import Corpus

# Nobody has more classes than this; somebody who names the wrong column does.
_MAX_LABELS = 10_000
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class LabeledCorpus(Corpus):
    """Texts with labels: a corpus with the columns `text` and `label`, its labels checked.

    Args:
        corpus: A corpus with the columns `("text", "label")`, such as a `TsvCorpus` or a
            `JsonLinesCorpus`.
        labels: The labels that may occur. Give those of the training corpus to the validation
            corpus. `None` takes what the corpus holds, which must then be two or more.
        integer_labels: Whether every label must be a whole number.

    Attributes:
        labels: The labels in order, as a tuple: class n is `labels[n]`.

    Example:

    >>> from keras_transformer.data import MemoryCorpus
    >>> reviews = [("A delight.", "good"), ("A waste of time.", "bad")]
    >>> training = LabeledCorpus(MemoryCorpus(reviews, columns=("text", "label")))
    >>> training.labels
    ('bad', 'good')
    """

    columns = ("text", "label")

    def __init__(self, corpus, labels=None, integer_labels=False):
        if corpus.columns != self.columns:
            raise ValueError(
                f"`corpus` must have the columns {self.columns}; got {corpus.columns}."
            )
        self.name = corpus.name
        self._corpus = corpus
        self._given_labels = None if labels is None else tuple(map(str, labels))
        self._found_labels = None
        self._integer_labels = bool(integer_labels)

    @property
    def labels(self):
        if self._given_labels is not None:
            return self._given_labels
        if self._found_labels is None:
            for _ in self:
                pass
        return self._found_labels

    def read(self, tally):
        found = set()
        for example in self._corpus.read(tally):
            label = example[1]
            if label not in found:
                self._check_label(label, tally)
                found.add(label)
                if len(found) > _MAX_LABELS:
                    raise UserError(
                        f"{tally.place}: more than {_MAX_LABELS:,} different labels, here "
                        f"{label!r}. Check which column holds the label."
                    )
            yield example
        self._found_labels = tuple(sorted(found, key=int if self._integer_labels else None))

    def check(self):
        self._corpus.fingerprint()  # so that a change of the files is noticed from here on
        report = super().check()
        if len(self.labels) < 2:
            raise UserError(
                f"{self.name}: all {report.examples:,} examples have the same label, "
                f"{self.labels[0]!r}. A classifier needs at least two."
            )
        return report

    def fingerprint(self):
        content = [self._corpus.fingerprint(), self._given_labels, self._integer_labels]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def _check_label(self, label, tally):
        if self._integer_labels and not _WHOLE_NUMBER.fullmatch(label):
            raise UserError(
                f"{tally.place}: the label must be a whole number; got {label!r}. Put it right, "
                "or use integer_labels=False."
            )
        if self._given_labels is not None and label not in self._given_labels:
            near = difflib.get_close_matches(label, self._given_labels, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            known = ", ".join(map(repr, self._given_labels[:20]))
            raise UserError(
                f"{tally.place}: unknown label {label!r}; the training corpus has {known}.{hint} "
                "Put it right, or add examples of it to the training corpus."
            )
