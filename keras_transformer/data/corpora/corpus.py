"""What every corpus is, wherever its examples come from."""

import abc
import dataclasses

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus_report import ReportBuilder
from keras_transformer.data.corpora.text_file import Tally


@dataclasses.dataclass(frozen=True)
class ReadingRules:
    """What to do with lines that a corpus cannot use as they are.

    Whatever is skipped or changed is counted in the corpus' report. A pair is skipped whole when
    one of its sides has to be, so that the sides stay together.

    Args:
        on_bad_line: `"error"` stops at the first bad line (wrong number of columns, broken JSON,
            a carriage return inside the line, bytes that are not UTF-8) and names file and line;
            `"skip"` leaves such lines out.
        encoding_errors: `"error"` makes a line with bytes that are not UTF-8 a bad line;
            `"replace"` keeps it and puts U+FFFD in their place.
        max_characters: Longer texts are skipped. No more than a small multiple of this is ever
            held in memory, however long a line is.

    Example:

    >>> ReadingRules(on_bad_line="skip").on_bad_line
    'skip'
    """

    on_bad_line: str = "error"
    encoding_errors: str = "error"
    max_characters: int = 100_000

    def __post_init__(self):
        require_choice("on_bad_line", self.on_bad_line, ("error", "skip"))
        require_choice("encoding_errors", self.encoding_errors, ("error", "replace"))
        require_positive_integer("max_characters", self.max_characters)


# What a corpus can hold: pairs, documents, labeled texts.
COLUMN_SETS = (("source", "target"), ("text",), ("text", "label"))


class Corpus(abc.ABC):
    """A sequence of examples that is streamed, in order, as often as one likes.

    Iterating yields tuples of `str`, one text for each of `columns`, the same each time.

    Attributes:
        columns: `("source", "target")`, `("text",)` or `("text", "label")`.
        name: What messages call the corpus.
    """

    columns: tuple
    name: str

    def __iter__(self):
        return self.read(Tally())

    @abc.abstractmethod
    def read(self, tally):
        """Yields the examples while `tally` keeps the place and counts what is left out."""

    @abc.abstractmethod
    def fingerprint(self):
        """Returns the sha256, in hexadecimal, of everything that decides what is yielded."""

    def check(self):
        """Reads everything once and returns a `CorpusReport`. Do this before training.

        Raises:
            UserError: At the first thing that is an error, with file and line, or if there are
                no examples.
        """
        tally = Tally()
        builder = ReportBuilder(self.columns)
        for example in self.read(tally):
            builder.add(example)
        if not builder.examples:
            raise UserError(
                f"{self.name}: no examples ({tally.blank_lines:,} blank lines, "
                f"{tally.bad_lines:,} bad lines, {tally.too_long:,} too long). "
                "Check that this is the right file."
            )
        return builder.report(tally)


def find_column_set(names):
    """Returns which of `COLUMN_SETS` the names hold; names beyond it stand for ignored columns.

    >>> find_column_set(["id", "target", "source"])
    ('source', 'target')
    """
    known = [name for name in names if name in ("source", "target", "text", "label")]
    for columns in COLUMN_SETS:
        if sorted(known) == sorted(columns):
            return columns
    wanted = ", ".join(str(columns) for columns in COLUMN_SETS)
    raise ValueError(f"The columns must be one of {wanted}; got {tuple(names)!r}.")
