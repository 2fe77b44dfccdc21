"""Text files, plain or gzip: reading of lines, and the base of corpora that consist of lines.

No line is lost, joined or split without notice, and memory is bounded however long a line is.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import TOO_LONG, BadRecordError, Tally, TooLong
from keras_transformer.data.corpora.file_corpus import BUFFER_BYTES, FileCorpus, open_file

#: A line of a file, or its substitute.
Line: TypeAlias = str | BadRecordError | TooLong

#: Fix for a line that is not UTF-8.
ENCODING_FIX = (
    "Convert the text to UTF-8, or set `encoding_errors` to replace, which writes U+FFFD instead."
)

#: Characters that a line may have in addition to its texts: keys, tabs, columns that are ignored.
UNREAD_CHARACTERS = 1 << 20

_SNIFFED_BYTES = 4096
_GZIP_MAGIC = b"\x1f\x8b"
# UTF-32 first: the mark of its little-endian form begins with that of UTF-16.
_OTHER_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class TextFileCorpus(FileCorpus):
    """Base of the corpora in text files, plain or gzip. Subclasses read records from `lines`."""

    @classmethod
    def looks_like(cls, lines: Sequence[str]) -> bool:
        """Returns whether the first lines of a file suggest this format whatever its name."""
        return False

    def probe(self, path: str) -> None:
        # An unreadable start (another encoding, damaged gzip) is an error before any work.
        next(self.lines(path, Tally()), None)

    def lines(self, path: str, tally: Tally, max_characters: int | None = None) -> Iterator[Line]:
        """Yields what `read_lines` yields; checks before and after that the file has not changed.

        `max_characters` defaults to that of the rules.
        """
        self.verify(path)
        yield from read_lines(
            path, tally, self.rules.encoding_errors, max_characters or self.rules.max_characters
        )
        self.verify(path)


def read_lines(
    path: str, tally: Tally, encoding_errors: str, max_characters: int
) -> Iterator[Line]:
    """Yields each line of a file as `str`, `BadRecordError` or `TOO_LONG`; updates the tally.

    `decode_lines` describes lines and arguments. A line of more than `max_characters` is yielded as
    `TOO_LONG`. NUL characters are removed and counted.
    """
    with open_file(path) as file:
        for line in decode_lines(unpack(file), path, tally, encoding_errors, max_characters):
            if isinstance(line, str):
                line = tally.without_nul(line)
                if len(line) > max_characters:
                    yield TOO_LONG
                    continue
            yield line


def unpack(file: io.BufferedReader) -> io.BufferedReader:
    """Returns the content of a gzip file as a stream, and any other file unchanged.

    The first bytes, not the name, decide whether it is gzip. On a pipe, the call waits for them.
    """
    if file.peek(2).startswith(_GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=file), BUFFER_BYTES)
    return file


def decode_lines(
    stream: io.BufferedReader, name: str, tally: Tally, encoding_errors: str, max_characters: int
) -> Iterator[Line]:
    """Yields each line of a stream as `str`, `BadRecordError` or `TOO_LONG`; updates the tally.

    A line ends with LF or CRLF; the last line may also end with the stream. All other characters,
    such as U+2028, U+0085, vertical tab and form feed, belong to the text. One byte order mark at
    the start is removed.

    Args:
        stream: Result of `unpack`.
        name: Name of the file in messages.
        tally: A `Tally`, which also counts replacements.
        encoding_errors: `"error"` or `"replace"`; see `ReadingRules`.
        max_characters: Integer. A line with more than 4 bytes for each is yielded as `TOO_LONG`
            and never held whole.

    Raises:
        UserError: If the stream is not UTF-8 text as a whole, or is damaged gzip.
    """
    # A character takes at most 4 bytes in UTF-8; 2 more for CRLF, 1 to detect a longer line.
    limit = 4 * max_characters + 3
    number = 0
    try:
        _skip_byte_order_mark(stream, name)
        for number, raw in enumerate(iter(partial(stream.readline, limit), b""), start=1):
            # Two files may be read in turn with one tally.
            tally.path, tally.line_number = name, number
            is_cut = len(raw) == limit and not raw.endswith(b"\n")
            yield _decode(raw, is_cut, tally, encoding_errors)
            if is_cut:
                _skip_to_line_end(stream)
    except EOFError:
        problem = f"gzip ends early, after line {number} or later."
        fix = "The file is truncated: copy or download it again."
        raise UserError(problem, where=name, fix=fix) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        problem = f"gzip is damaged after line {number} or later ({error})."
        raise UserError(problem, where=name, fix="Copy or download the file again.") from None


def _skip_byte_order_mark(stream: io.BufferedReader, name: str) -> None:
    """Skips the byte order mark of UTF-8, if there is one, and raises for other encodings."""

    def wrong_encoding(encoding: str, evidence: str) -> UserError:
        fix = f"Convert it to UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."
        return UserError(f"looks like {encoding} {evidence}.", where=name, fix=fix)

    head = stream.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    for mark, encoding in _OTHER_BOMS.items():
        if head.startswith(mark):
            raise wrong_encoding(encoding, f"(BOM {mark.hex(' ').upper()})")
    # In UTF-16, text of European languages has a NUL in nearly every second byte. Stray NULs in
    # UTF-8 are far fewer, or are not all at even or all at odd positions.
    nuls = head.count(0)
    if nuls < 2 or nuls * 5 < len(head):
        return
    nuls_at_even = head[::2].count(0)
    if min(nuls_at_even, nuls - nuls_at_even) * 10 <= nuls:
        encoding = "UTF-16BE" if nuls_at_even * 2 > nuls else "UTF-16LE"
        evidence = f"without a BOM ({nuls} of the first {len(head)} bytes are NUL)"
        raise wrong_encoding(encoding, evidence)


def shorten(text: str, longest: int) -> str:
    """Returns the text, or its beginning with an ellipsis in place of the rest."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def count_columns(number: int) -> str:
    """Returns a number of columns in words: "1 column", "2 columns"."""
    return f"{number} column{'s' * (number != 1)}"


def _skip_to_line_end(stream: io.BufferedReader) -> None:
    while (piece := stream.readline(BUFFER_BYTES)) and not piece.endswith(b"\n"):
        pass


def _decode(raw: bytes, is_cut: bool, tally: Tally, encoding_errors: str) -> Line:
    """Returns the text of a line, or what is wrong with it; `is_cut` if there is more of it."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if b"\r" in raw:
        return tally.bad_record(
            "a carriage return inside the line (the line ends of old Macintosh files).",
            "Convert them to line feeds: tr '\\r' '\\n' < OLD > NEW.",
        )
    if is_cut:
        return TOO_LONG
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "error":
            return BadRecordError(
                f"byte 0x{raw[error.start]:02X} is not UTF-8.",
                where=f"{tally.where}:{error.start + 1}",
                fix=ENCODING_FIX,
            )
    text = raw.decode("utf-8", "replace")
    # The file itself may contain U+FFFD, too.
    tally.replacements += text.count("\ufffd") - raw.count("\ufffd".encode())
    return text
