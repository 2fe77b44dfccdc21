"""What to do with lines that a corpus cannot use as they are."""

import dataclasses

from keras_transformer.checks import require_choice, require_positive_integer


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
