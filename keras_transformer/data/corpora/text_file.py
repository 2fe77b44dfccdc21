"""Lines of a text file, plain or gzip, read so that nothing is lost, glued or split in silence."""

import codecs
import gzip
import io
import os
import stat
import zlib
from functools import partial

from keras_transformer._utils.errors import UserError


class BadLine:
    """A line that breaks the format.

    Args:
        problem: Where it is and what is wrong with it.
        remedy: What the user can do about it, besides leaving it out.
    """

    def __init__(self, problem, remedy):
        self.problem = problem
        self.remedy = remedy


# Stands for a line or a document beyond the allowed length; its text was not kept.
TOO_LONG = object()


class Tally:
    """Where one reading of a corpus is, and what it has left out or changed so far."""

    def __init__(self):
        self.path = None
        self.line_number = 0
        self.blank_lines = 0
        self.bad_lines = 0
        self.first_bad_line = None
        self.too_long = 0
        self.replacements = 0
        self.nul_characters = 0
        self.warnings = []

    @property
    def place(self):
        return f"{self.path}:{self.line_number}"

    def refuse(self, bad_line, rules):
        """Counts a bad line, or raises its message when the rules call it an error."""
        if rules.on_bad_line == "error":
            raise UserError(
                f"{bad_line.problem}. {bad_line.remedy}, or leave such lines out with "
                'on_bad_line="skip".'
            )
        self.bad_lines += 1
        if self.first_bad_line is None:
            self.first_bad_line = bad_line.problem

    def without_nul(self, text):
        """Returns `text` without NUL characters, which no tokenizer has a use for; counts them."""
        if "\0" not in text:
            return text
        self.nul_characters += text.count("\0")
        return text.replace("\0", "")


BUFFER_BYTES = 1 << 18
#: What the user can do about a line that is not UTF-8.
ENCODING_REMEDY = 'Turn the text into UTF-8, or put U+FFFD there with encoding_errors="replace"'

_SNIFFED_BYTES = 4096
_GZIP_MAGIC = b"\x1f\x8b"
# UTF-32 first: the mark of its little-endian form begins with that of UTF-16.
_OTHER_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def unpack(file):
    """Returns the content of a gzip file as a stream, and any other buffered file as it is.

    Which of them it is, its first bytes tell, not its name; those of a pipe are waited for.
    """
    if file.peek(2).startswith(_GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=file), BUFFER_BYTES)
    return file


def decode_lines(stream, name, tally, encoding_errors, max_characters):
    """Yields each line of a stream as `str`, `BadLine` or `TOO_LONG`, and keeps the tally's place.

    A line ends with LF or CRLF, the last one also with the stream. Everything else, such as
    U+2028, U+0085, vertical tab and form feed, belongs to the text. One byte order mark at the
    start is no text.

    Args:
        stream: What `unpack` returned.
        name: Of the file, for messages.
        tally: A `Tally`, which also counts the replacements.
        encoding_errors: As in `ReadingRules`.
        max_characters: A line that must be longer, by its bytes, is given as `TOO_LONG` and never
            held whole. Others may be longer too.

    Raises:
        UserError: If the stream is not UTF-8 text as a whole, or is damaged gzip.
    """
    # A character takes at most 4 bytes in UTF-8; 2 more for CRLF, 1 to tell "longer than".
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
        raise UserError(
            f"{name}: gzip ends early, somewhere after line {number}. The file is cut short: copy "
            "or download it again."
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{name}: gzip is damaged somewhere after line {number} ({error}). Copy or download "
            "the file again."
        ) from None


def _skip_byte_order_mark(stream, name):
    """Skips the mark of UTF-8, if there is one, and refuses other encodings."""
    head = stream.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    for mark, encoding in _OTHER_BOMS.items():
        if head.startswith(mark):
            raise UserError(
                f"{name}: looks like {encoding} (BOM {mark.hex(' ').upper()}). "
                f"Turn it into UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."
            )
    # Text in European languages has a NUL in nearly every second byte of UTF-16. Stray NULs in
    # UTF-8 are far fewer, or do not keep to the odd or the even places.
    nuls = head.count(0)
    if nuls < 2 or nuls * 5 < len(head):
        return
    nuls_at_even = head[::2].count(0)
    if min(nuls_at_even, nuls - nuls_at_even) * 10 <= nuls:
        encoding = "UTF-16BE" if nuls_at_even * 2 > nuls else "UTF-16LE"
        raise UserError(
            f"{name}: looks like {encoding} without a BOM ({nuls} of the first {len(head)} bytes "
            f"are NUL). Turn it into UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."
        )


def _skip_to_line_end(stream):
    while (piece := stream.readline(BUFFER_BYTES)) and not piece.endswith(b"\n"):
        pass


def _decode(raw, is_cut, tally, encoding_errors):
    """Returns the text of a line, or what is wrong with it; `is_cut` says that there is more."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if b"\r" in raw:
        return BadLine(
            f"{tally.place}: a carriage return inside the line (line ends of an old Mac?)",
            "Turn them into line feeds: tr '\\r' '\\n' < OLD > NEW",
        )
    if is_cut:
        return TOO_LONG
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "error":
            return BadLine(
                f"{tally.place}:{error.start + 1}: byte 0x{raw[error.start]:02X} is not UTF-8",
                ENCODING_REMEDY,
            )
    text = raw.decode("utf-8", "replace")
    # U+FFFD may also stand in the file itself.
    tally.replacements += text.count("\ufffd") - raw.count("\ufffd".encode())
    return text


def read_lines(path, tally, encoding_errors, max_characters):
    """Yields each line of a file as `str`, `BadLine` or `TOO_LONG`, and keeps the tally's place.

    What a line is, `decode_lines` says. NUL characters are taken out and counted.

    Args:
        path: The file. Whether it is gzip is told by its content, not by its name.
        tally: A `Tally`.
        encoding_errors: As in `ReadingRules`.
        max_characters: A longer line is given as `TOO_LONG` and never held whole.

    Raises:
        UserError: If the file cannot be opened, is not UTF-8 text as a whole, or is damaged gzip.
    """
    with open_file(path) as file:
        for line in decode_lines(unpack(file), path, tally, encoding_errors, max_characters):
            if isinstance(line, str):
                line = tally.without_nul(line)
                if len(line) > max_characters:
                    line = TOO_LONG
            yield line


def open_file(path):
    """Opens a file for reading bytes; raises `UserError` if it is not there to be read."""
    try:
        mode = os.stat(path).st_mode
        # To open a named pipe would wait until somebody writes to it.
        if stat.S_ISREG(mode):
            return open(path, "rb", buffering=BUFFER_BYTES)
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file (the current directory is {os.getcwd()}). Check the path."
        ) from None
    except PermissionError:
        raise UserError(
            f"{path}: permission denied. Make the file and its directories readable: chmod u+r."
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be opened: {error.strerror}. Check the path.") from None
    if stat.S_ISDIR(mode):
        raise UserError(
            f"{path}: is a directory. Name a file in it, or where several are read, several: "
            f"{os.path.join(path, '*')}."
        )
    raise UserError(
        f"{path}: is not a regular file. A corpus is read more than once: save it to a file first."
    )
