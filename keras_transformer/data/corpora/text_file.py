"""Lines of a text file, plain or gzip, read so that nothing is lost, glued or split in silence.

The file is read as bytes and split at line feeds alone: `str.splitlines` also splits at U+2028
and U+0085, which would shift every later line of a parallel file against its other side.
"""

import contextlib
import gzip
import io
import os
import stat
import zlib
from functools import partial

from keras_transformer.data.corpora.tally import TOO_LONG, BadLine
from keras_transformer.errors import UserError

_BUFFER_BYTES = 1 << 18
_SNIFFED_BYTES = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
# UTF-32 first: the mark of its little-endian form begins with that of UTF-16.
_OTHER_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def read_lines(path, tally, encoding_errors, max_characters):
    """Yields each line of a file as `str`, `BadLine` or `TOO_LONG`, and keeps the tally's place.

    A line ends with LF or CRLF, the last one also with the file. Everything else, such as U+2028,
    U+0085, vertical tab and form feed, belongs to the text. One byte order mark at the start of
    the file is no text; NUL characters are taken out and counted.

    Args:
        path: The file. Whether it is gzip is told by its content, not by its name.
        tally: A `Tally`.
        encoding_errors: As in `ReadingRules`.
        max_characters: A longer line is given as `TOO_LONG` and never held whole.

    Raises:
        UserError: If the file cannot be opened, is not UTF-8 text as a whole, or is damaged gzip.
    """
    # A character takes at most 4 bytes in UTF-8; 2 more for CRLF, 1 to tell "longer than".
    limit = 4 * max_characters + 3
    number = 0
    try:
        with _open_text(path) as stream:
            for number, raw in enumerate(iter(partial(stream.readline, limit), b""), start=1):
                # Two files may be read in turn with one tally.
                tally.path, tally.line_number = path, number
                is_cut = len(raw) == limit and not raw.endswith(b"\n")
                if is_cut:
                    _skip_to_line_end(stream)
                yield _decode(raw, is_cut, tally, encoding_errors, max_characters)
    except EOFError:
        raise UserError(
            f"{path}: gzip ends early, somewhere after line {number}. The file is cut short: copy "
            "or download it again."
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path}: gzip is damaged somewhere after line {number} ({error}). Copy or download "
            "the file again."
        ) from None


@contextlib.contextmanager
def _open_text(path):
    """Opens a text file, plain or gzip, as a stream of UTF-8 bytes behind any byte order mark."""
    with open_file(path) as file:
        stream = file
        if file.peek(2).startswith(_GZIP_MAGIC):
            stream = io.BufferedReader(gzip.GzipFile(fileobj=file), _BUFFER_BYTES)
        head = stream.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]
        _refuse_other_encodings(path, head)
        if head.startswith(_UTF8_BOM):
            stream.read(len(_UTF8_BOM))
        yield stream


def open_file(path):
    """Opens a file for reading bytes; raises `UserError` if it is not there to be read."""
    try:
        mode = os.stat(path).st_mode
        # To open a named pipe would wait until somebody writes to it.
        if stat.S_ISREG(mode):
            return open(path, "rb", buffering=_BUFFER_BYTES)
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
            f"{path}: is a directory. Name the files in it, for example {os.path.join(path, '*')}."
        )
    raise UserError(
        f"{path}: is not a regular file. A corpus is read more than once: save it to a file first."
    )


def _refuse_other_encodings(path, head):
    for mark, encoding in _OTHER_BOMS.items():
        if head.startswith(mark):
            raise UserError(
                f"{path}: looks like {encoding} (BOM {mark.hex(' ').upper()}). "
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
            f"{path}: looks like {encoding} without a BOM ({nuls} of the first {len(head)} bytes "
            f"are NUL). Turn it into UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."
        )


def _skip_to_line_end(stream):
    while (piece := stream.readline(_BUFFER_BYTES)) and not piece.endswith(b"\n"):
        pass


def _decode(raw, is_cut, tally, encoding_errors, max_characters):
    """Returns the text of a line, or what is wrong with it; `is_cut` says that there is more."""
    if raw.endswith(b"\r\n"):
        raw = raw[:-2]
    elif raw.endswith((b"\n", b"\r")):
        raw = raw[:-1]
    if b"\r" in raw:
        return BadLine(
            f"{tally.place}: a carriage return inside the line (line ends of an old Mac?)",
            "Turn them into line feeds: tr '\\r' '\\n' < OLD > NEW",
        )
    if is_cut:
        return TOO_LONG
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if encoding_errors == "error":
            return BadLine(
                f"{tally.place}:{error.start + 1}: byte 0x{raw[error.start]:02X} is not UTF-8",
                'Turn the file into UTF-8, put U+FFFD there with encoding_errors="replace"',
            )
        text = raw.decode("utf-8", "replace")
        # U+FFFD may also stand in the file itself.
        tally.replacements += text.count("\ufffd") - raw.count("\ufffd".encode())
    text = tally.without_nul(text)
    return TOO_LONG if len(text) > max_characters else text
