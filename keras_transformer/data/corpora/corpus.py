"""The interface of a corpus: examples that are streamed, checked and counted."""

import abc
import dataclasses
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


#: Stands for a text beyond the allowed length. The text itself is not kept.
TOO_LONG = TooLong()

#: What the files of a corpus hold: examples, or their substitutes.
Record: TypeAlias = Example | BadRecordError | TooLong


@dataclasses.dataclass(frozen=True)
class ReadingRules:
    """Rules for lines (or records) that cannot be used as they are.

    The corpus report counts everything that is skipped or changed. A pair is skipped as a whole
    when one of its sides is, so that source and target stay aligned.

    Args:
        on_bad_line: `"error"` raises the first bad line (wrong number of columns, invalid JSON, a
            carriage return inside the line, bytes that are not UTF-8) with file and line; `"skip"`
            skips bad lines. Defaults to `"error"`.
        encoding_errors: `"error"` makes a line with bytes that are not UTF-8 a bad line;
            `"replace"` keeps it and replaces them by U+FFFD. Defaults to `"error"`.
        max_characters: Integer. Longer texts are skipped, and never held in memory as a whole.
            Defaults to 100,000.
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
        path: File that is being read.
        line_number: Number of the current line or record, from 1.
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
        """Reads everything once and returns a `CorpusReport`. Call it before training.

        Raises:
            UserError: For the first error, with file and line, or if there are no examples.
        """
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


def find_column_set(names: Iterable[str], argument: str = "columns") -> tuple[str, ...]:
    """Returns the member of `COLUMN_SETS` that `names` contains; other names are ignored columns.

    >>> find_column_set(["id", "target", "source"])
    ('source', 'target')
    """
    names = tuple(names)
    known = sorted(name for name in names if name in ("source", "target", "text", "label"))
    for columns in COLUMN_SETS:
        if known == sorted(columns):
            return columns
    sets = ", or ".join(" and ".join(columns) for columns in COLUMN_SETS)
    raise ArgumentError(argument, f"names of columns, among them {sets}", names)
