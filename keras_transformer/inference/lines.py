"""Lines to be translated or scored: every one is kept, in order, from a file, a pipe or a terminal.

A corpus may leave out lines that it cannot use; a translation may not, as line n of what comes out
belongs to line n of what went in. So a blank line is a line, and a line that is no text an error.
"""

import codecs
import gzip
import io
import os
import select
import stat
import sys
import zlib

from keras_transformer.checks import require_choice
from keras_transformer.data.corpora.text_file import open_file
from keras_transformer.errors import UserError

#: A longer line is an error: it is a whole file without line feeds, or no text at all.
MOST_CHARACTERS = 1_000_000

_BUFFER_BYTES = 1 << 18
# A character takes at most 4 bytes in UTF-8; 2 more for CRLF, 1 to tell "longer than".
_MOST_BYTES = 4 * MOST_CHARACTERS + 3
_GZIP_MAGIC = b"\x1f\x8b"
# UTF-32 first: the mark of its little-endian form begins with that of UTF-16.
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
# How long the next line of a pipe may take to come before those that have come are answered.
_PATIENCE_SECONDS = 0.05


class LineReader:
    """The lines of a file or of standard input, one after another: an iterator of strings.

    A line ends with LF or CRLF, the last one also with the file. Everything else, such as U+2028
    and U+0085, belongs to the text. One byte order mark at the start is no text. Whether a file is
    gzip is told by its content, not by its name.

    Args:
        path: The file, which may also be a named pipe. None means standard input.
        encoding_errors: `"error"` makes bytes that are not UTF-8, and NUL, an error that names
            file, line and byte; `"replace"` puts U+FFFD in their place and counts them.

    Attributes:
        name: of the file, for messages.
        replaced: how many byte sequences have become U+FFFD so far.

    Raises:
        UserError: If the file cannot be opened; while reading, if it is not UTF-8 text or is
            damaged gzip.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "greetings.txt")
    >>> _ = path.write_bytes(b"Guten Tag\\r\\n\\nDanke")
    >>> with LineReader(path) as lines:
    ...     list(lines)
    ['Guten Tag', '', 'Danke']
    """

    def __init__(self, path=None, encoding_errors="error"):
        self.encoding_errors = require_choice(
            "encoding_errors", encoding_errors, ("error", "replace")
        )
        self.name = "standard input" if path is None else os.fspath(path)
        self.replaced = 0
        self._line_number = 0
        self._consumed = 0
        self._pipe = None
        self._file = self._open(path)
        # Nothing is read before the first line is wanted: a terminal would have to be waited for.
        self._lines = self._read()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def is_terminal(self):
        """Whether a person types the lines."""
        return self._file.isatty()

    def close(self):
        """Closes the file. Standard input stays open."""
        self._lines.close()
        self._file.close()

    def must_wait(self):
        """Whether the next line has not come yet: somebody types, or writes a line at a time.

        Never so for a file, nor for gzip. Looking takes a twentieth of a second at most.
        """
        if self._pipe is None:
            return False
        # `peek` reads on if nothing is left of what was read before, and would wait then.
        is_left = self._pipe.bytes_read > self._consumed
        if is_left and b"\n" in self._file.peek():
            return False
        return not select.select([self._pipe], [], [], _PATIENCE_SECONDS)[0]

    def _open(self, path):
        if path is None and sys.stdin is None:
            raise UserError(f"{self.name}: is closed. Give a file with `input`.")
        try:
            if path is None:
                raw = _CountingFile(0, closefd=False)
            elif _is_pipe(path):
                raw = _CountingFile(path)
            else:
                return open_file(path)
        except OSError as error:
            raise UserError(
                f"{self.name}: cannot be read: {error.strerror}. Give a file with `input`."
            ) from None
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            self._pipe = raw
        return io.BufferedReader(raw, _BUFFER_BYTES)

    def _read(self):
        stream = self._file
        if stream.peek(2).startswith(_GZIP_MAGIC):
            self._pipe = None
            stream = io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER_BYTES)
        try:
            self._consumed = self._skip_mark(stream)
            while raw := stream.readline(_MOST_BYTES):
                self._consumed += len(raw)
                self._line_number += 1
                yield self._decode(raw)
        except EOFError:
            raise self._damaged("gzip ends early") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._damaged(f"gzip is damaged ({error})") from None

    def _damaged(self, problem):
        return UserError(
            f"{self.name}: {problem}, somewhere after line {self._line_number}. Copy or download "
            "the file again."
        )

    def _skip_mark(self, stream):
        """Skips a byte order mark of UTF-8, refuses others; returns how many bytes it skipped."""
        head = stream.peek(4)
        for mark, encoding in _OTHER_MARKS.items():
            if head.startswith(mark):
                raise UserError(
                    f"{self.name}: looks like {encoding} (BOM {mark.hex(' ').upper()}). Turn it "
                    f"into UTF-8: iconv -f {encoding} -t UTF-8 OLD > NEW."
                )
        return len(stream.read(3)) if head.startswith(codecs.BOM_UTF8) else 0

    def _decode(self, raw):
        """Returns the text of a line."""
        place = f"{self.name}:{self._line_number}"
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if b"\r" in raw:
            raise UserError(
                f"{place}: a carriage return inside the line (line ends of an old Mac?). Turn them "
                "into line feeds: tr '\\r' '\\n' < OLD > NEW."
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            # The character that the limit has cut is none of the user's.
            if len(raw) < _MOST_BYTES and self.encoding_errors == "error":
                raise self._no_text(
                    f"{place}:{error.start + 1}: byte 0x{raw[error.start]:02X} is not UTF-8"
                ) from None
            text = raw.decode("utf-8", "replace")
            # U+FFFD may also stand in the file itself.
            self.replaced += text.count("\ufffd") - raw.count("\ufffd".encode())
        if len(text) > MOST_CHARACTERS:
            raise UserError(
                f"{place}: longer than {MOST_CHARACTERS:,} characters. Put each sentence or "
                "paragraph on a line of its own."
            )
        if "\0" in text:
            if self.encoding_errors == "error":
                raise self._no_text(
                    f"{place}:{raw.index(0) + 1}: a NUL byte; this is UTF-16, or no text at all"
                )
            self.replaced += text.count("\0")
            text = text.replace("\0", "\ufffd")
        return text

    def _no_text(self, problem):
        return UserError(
            f"{problem}. Turn the text into UTF-8, or put U+FFFD there with "
            'encoding_errors="replace".'
        )


class _CountingFile(io.FileIO):
    """A file that knows how many bytes have been read, and so what waits in a buffer over it."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.bytes_read = 0

    def readinto(self, buffer):
        count = super().readinto(buffer)
        self.bytes_read += count
        return count


def _is_pipe(path):
    """Whether it is there and can be read once only: a named pipe, `<(…)`, `/dev/stdin`."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def count_lines(path, encoding_errors="error"):
    """Returns how many lines a file has; whatever is wrong with any of them is known afterwards.

    Args:
        path: A regular file, as it is to be read again.
        encoding_errors: As for `LineReader`.
    """
    open_file(path).close()
    with LineReader(path, encoding_errors) as lines:
        return sum(1 for _ in lines)


def require_parallel(paths, encoding_errors="error"):
    """Returns how many lines each of the files has; an error if they differ, or have none.

    Args:
        paths: One or more regular files; line n of one goes with line n of the others.
        encoding_errors: As for `LineReader`.
    """
    counts = [count_lines(path, encoding_errors) for path in paths]
    for path, count in zip(paths, counts, strict=True):
        if count != counts[0]:
            raise UserError(
                f"{paths[0]}: line count {counts[0]:,}, but {path}: line count {count:,}. Line n "
                "of one must go with line n of the other: find what is missing."
            )
    if not counts[0]:
        raise UserError(f"{paths[0]}: no lines. Check that this is the right file.")
    return counts[0]
