"""Lines to be translated or scored: every one is kept, in order, from a file, a pipe or a terminal.

A corpus may leave out lines that it cannot use; a translation may not, as line n of what comes out
belongs to line n of what went in. So a blank line is a line, and a line that is no text an error.
"""

import io
import os
import select
import stat
import sys

from keras_transformer.checks import require_choice
from keras_transformer.data.corpora.tally import TOO_LONG, BadLine, Tally
from keras_transformer.data.corpora.text_file import open_file
from keras_transformer.data.corpora.text_stream import (
    BUFFER_BYTES,
    ENCODING_REMEDY,
    decode_lines,
    unpack,
)
from keras_transformer.errors import UserError

#: A longer line is an error: it is a whole file without line feeds, or no text at all.
MOST_CHARACTERS = 1_000_000

# How long the next line of a pipe may take to come before those that have come are answered.
_PATIENCE_SECONDS = 0.05


class LineReader:
    """The lines of a file or of standard input, one after another: an iterator of strings.

    A line ends with LF or CRLF, the last one also with the file; other separators of Unicode belong
    to the text. Whether a file is gzip is told by its content, not by its name.

    Args:
        path: The file, which may also be a named pipe. None means standard input.
        encoding_errors: `"error"` makes bytes that are not UTF-8, and NUL, an error that names
            file, line and byte; `"replace"` puts U+FFFD in their place and counts them.

    Attributes:
        name: of the file, for messages.

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
        self._tally = Tally()
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
    def replaced(self):
        """How many byte sequences have become U+FFFD so far."""
        return self._tally.replacements

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
        self._pipe.is_shut = True
        left = self._file.peek()
        self._pipe.is_shut = False
        if b"\n" in left:
            return False
        return not select.select([self._pipe], [], [], _PATIENCE_SECONDS)[0]

    def _open(self, path):
        if path is None and sys.stdin is None:
            raise UserError(f"{self.name}: is closed. Give a file with `input`.")
        try:
            if path is None:
                raw = _Pipe(0, closefd=False)
            elif _is_pipe(path):
                raw = _Pipe(path)
            else:
                return open_file(path)
        except OSError as error:
            raise UserError(
                f"{self.name}: cannot be read: {error.strerror}. Give a file with `input`."
            ) from None
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            self._pipe = raw
        return io.BufferedReader(raw, BUFFER_BYTES)

    def _read(self):
        stream = unpack(self._file)
        if stream is not self._file:
            self._pipe = None
        for line in decode_lines(
            stream, self.name, self._tally, self.encoding_errors, MOST_CHARACTERS
        ):
            yield self._require_text(line)

    def _require_text(self, line):
        """Returns what the line says, without NUL; an error if it is none."""
        if isinstance(line, BadLine):
            raise UserError(f"{line.problem}. {line.remedy}.")
        if line is TOO_LONG or len(line) > MOST_CHARACTERS:
            raise UserError(
                f"{self._tally.place}: longer than {MOST_CHARACTERS:,} characters. Put each "
                "sentence or paragraph on a line of its own."
            )
        if "\0" in line:
            if self.encoding_errors == "error":
                raise UserError(
                    f"{self._tally.place}:{line.encode().index(0) + 1}: a NUL byte; this is "
                    f"UTF-16, or no text at all. {ENCODING_REMEDY}."
                )
            self._tally.replacements += line.count("\0")
            line = line.replace("\0", "\ufffd")
        return line


class _Pipe(io.FileIO):
    """A file that, while it is shut, gives a buffer over it nothing more to hold."""

    is_shut = False

    def readinto(self, buffer):
        return None if self.is_shut else super().readinto(buffer)


def _is_pipe(path):
    """Whether it is there and can be read once only: a named pipe, `<(…)`, `/dev/stdin`."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
