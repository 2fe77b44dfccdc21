"""The interface of a corpus, corpora in memory, and labeled corpora."""

import abc
import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.data.corpora.corpus_report import CorpusReport, ReportBuilder

#: One text for each column of the corpus.
Example: TypeAlias = tuple[str, ...]

#: The sets of columns that a corpus can have: pairs, documents, labeled texts.
COLUMN_SETS: tuple[tuple[str, ...], ...] = (("source", "target"), ("text",), ("text", "label"))

NO_EXAMPLES_FIX = "Check that this is the right file."


class BadRecordError(UserError):
    """A line or record that breaks the format of its file, yielded in place of an example."""


class TooLong:
    """Type of `TOO_LONG`."""


#: Substitute for a text beyond the allowed length. The text itself is not kept.
TOO_LONG = TooLong()

#: What the files of a corpus hold: examples, or their substitutes.
Record: TypeAlias = Example | BadRecordError | TooLong


@dataclasses.dataclass(frozen=True)
class ReadingRules:
    """Rules for lines (or records) that cannot be used as they are.

    The corpus report counts everything that is skipped or changed. A pair is skipped as a whole
    when one of its sides is, so that source and target stay aligned.

    Args:
        on_bad_line: `"error"` raises the first bad line (such as invalid JSON) with file and line;
            `"skip"` skips bad lines.
        encoding_errors: `"error"` makes a line with bytes that are not UTF-8 a bad line;
            `"replace"` keeps it and replaces them by U+FFFD.
        max_characters: Longer texts are skipped, and never held in memory as a whole.
    """

    on_bad_line: str = "error"
    encoding_errors: str = "error"
    max_characters: int = 100_000

    def __post_init__(self) -> None:
        require_choice("on_bad_line", self.on_bad_line, ("error", "skip"))
        require_choice("encoding_errors", self.encoding_errors, ("error", "replace"))
        require_positive_integer("max_characters", self.max_characters)


@dataclasses.dataclass
class Tally:
    """The current position of one reading of a corpus, and counts of what it skipped or changed.

    Attributes:
        path, line_number: The current file, and the number of its current line or record, from 1.
        blank_lines, bad_lines, too_long: Numbers of lines that were skipped.
        first_bad_line: Location and problem of the first bad line, or None.
        replacements: Number of byte sequences that became U+FFFD.
        nul_characters: Number of NUL characters that were removed.
        warnings: Sentences for the user.
    """

    path: str | None = None
    line_number: int = 0
    blank_lines: int = 0
    bad_lines: int = 0
    first_bad_line: str | None = None
    too_long: int = 0
    replacements: int = 0
    nul_characters: int = 0
    warnings: list[str] = dataclasses.field(default_factory=list)

    @property
    def where(self) -> str:
        """The current position, as `path:line`."""
        return f"{self.path}:{self.line_number}"

    def bad_record(self, problem: str, fix: str | None = None) -> BadRecordError:
        """Returns a `BadRecordError` at the current position."""
        return BadRecordError(problem, where=self.where, fix=fix)

    def skip(self, record: BadRecordError | TooLong, rules: ReadingRules) -> None:
        """Counts a record that is not an example, or raises it if bad lines are errors."""
        if isinstance(record, TooLong):
            self.too_long += 1
            return
        if rules.on_bad_line == "error":
            skip = "Or set `on_bad_line` to skip, to leave such lines out."
            fix = skip if record.fix is None else f"{record.fix} {skip}"
            raise UserError(record.problem, where=record.where, fix=fix)
        self.bad_lines += 1
        if self.first_bad_line is None:
            self.first_bad_line = f"{record.where}: {record.problem}"

    def without_nul(self, text: str) -> str:
        """Returns `text` without NUL characters, which no tokenizer can use, and counts them."""
        if "\0" not in text:
            return text
        self.nul_characters += text.count("\0")
        return text.replace("\0", "")


class Corpus(abc.ABC):
    """A sequence of examples that can be streamed, in order, any number of times.

    Iterating yields tuples of `str`, one text for each of `columns`, the same in every pass.

    Attributes:
        columns: `("source", "target")`, `("text",)` or `("text", "label")`.
        name: Name of the corpus in messages.
    """

    columns: tuple[str, ...]
    name: str

    def __iter__(self) -> Iterator[Example]:
        return iter(self.read(Tally()))

    @abc.abstractmethod
    def read(self, tally: Tally) -> Iterable[Example]:
        """Yields the examples; keeps the position and the counts of `tally` up to date."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Returns the sha256, in hexadecimal, of everything that decides what is yielded."""

    def check(self) -> CorpusReport:
        """Reads everything once and returns a `CorpusReport`; raises the first error."""
        self.fingerprint()  # from here on, changes of files are errors
        tally = Tally()
        builder = ReportBuilder(self.columns)
        for example in self.read(tally):
            builder.add(example)
        if not builder.examples:
            raise UserError(
                f"no examples ({tally.blank_lines:,} blank lines, {tally.bad_lines:,} bad lines, "
                f"{tally.too_long:,} too long).",
                where=self.name,
                fix=NO_EXAMPLES_FIX,
            )
        return builder.report(tally)


class MemoryCorpus(Corpus):
    """Examples that a program makes, with the interface of a corpus on disk.

    Args:
        examples: Tuples of `str` with one text for each column, none of them blank.
        columns: `("source", "target")`, `("text",)` or `("text", "label")`.
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
        if len(example) != len(self.columns) or not all(
            isinstance(text, str) and text.strip() and "\0" not in text for text in example
        ):
            raise UserError(
                f"Example {number} must be {len(self.columns)} non-blank strings "
                f"({', '.join(self.columns)}) without NUL; got {example!r}."
            )
        try:
            return "\0".join((*example, "")).encode()
        except UnicodeEncodeError as error:
            raise UserError(f"Example {number} cannot be encoded as UTF-8: {error}.") from None


# No task has more classes, but the wrong column has more different values.
_MAX_LABELS = 10_000
_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class LabeledCorpus(Corpus):
    """Texts with labels: a corpus with the columns `text` and `label` whose labels are checked.

    `open_corpus` wraps every corpus with these columns, such as a TSV file, in this class.

    Args:
        corpus: A corpus with the columns `("text", "label")`.
        labels: The labels that may occur. Give those of the training corpus to the validation
            corpus. Default: the labels in the corpus, which must then be two or more.
        integer_labels: Whether every label must be an integer.

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
        self._integer_labels = integer_labels

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


def find_column_set(names: Iterable[str], argument: str = "columns") -> tuple[str, ...]:
    """Returns the member of `COLUMN_SETS` in `names`; columns with other names are ignored."""
    names = tuple(names)
    known = sorted(name for name in names if name in ("source", "target", "text", "label"))
    for columns in COLUMN_SETS:
        if known == sorted(columns):
            return columns
    sets = ", or ".join(" and ".join(columns) for columns in COLUMN_SETS)
    raise ArgumentError(argument, f"names of columns, among them {sets}", names)
