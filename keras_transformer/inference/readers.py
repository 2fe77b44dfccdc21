"""Lines in lists that are given to a model at once."""

import io
import os
import select
import stat
import sys

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text, is_conllu_file
from keras_transformer.data.corpora.text_file import (
    BUFFER_BYTES,
    ENCODING_REMEDY,
    TOO_LONG,
    BadLine,
    Tally,
    decode_lines,
    open_file,
    unpack,
)

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


class SentenceReader:
    """The sentences of a `LineReader` whose lines are CoNLL-U: an iterator of strings.

    A sentence ends with a blank line. A line that can be in no sentence of CoNLL-U, as it has no
    tab and is no comment, is a sentence of its own: plain text.

    Args:
        lines: the `LineReader`.
        is_text: whether a sentence is given as its words with a space between them, for models that
            read no trees; else as CoNLL-U.

    Example:

    >>> class Lines(list):
    ...     name = "made up"
    >>> words = ["1 Dogs _ _ _ _ 2 _ _ _", "2 sleep _ _ _ _ 0 _ _ _"]
    >>> words = [word.replace(" ", "\\t") for word in words]
    >>> list(SentenceReader(Lines(["# sent_id = 1", *words, "", "Good night"]), is_text=True))
    ['Dogs sleep', 'Good night']
    """

    def __init__(self, lines, is_text=False):
        self.name = lines.name
        self._lines = lines
        self._sentences = self._read()
        self._convert = conllu_text if is_text else str

    def __iter__(self):
        return self

    def __next__(self):
        return self._convert(next(self._sentences))

    @property
    def is_terminal(self):
        """Whether a person types the lines."""
        return self._lines.is_terminal

    def must_wait(self):
        """Whether the next line has not come yet, see `LineReader.must_wait`."""
        return self._lines.must_wait()

    def _read(self):
        sentence = []
        for line in self._lines:
            if "\t" in line or line.startswith("#"):
                sentence.append(line)
                continue
            if sentence:
                yield "\n".join(sentence)
                sentence = []
            if line and not line.isspace():
                yield line
        if sentence:
            yield "\n".join(sentence)


def as_sources(lines, path, text_model):
    """Returns an iterator of what a model is given of the lines of a file.

    They are sentences where the file's name ends with .conllu, and where standard input is for a
    model that reads trees; else the lines as they are.

    Args:
        lines: the `LineReader`.
        path: of the file; None for standard input.
        text_model: the `TextModel`.
    """
    is_parsed = text_model.reads_trees if path is None else is_conllu_file(path)
    return SentenceReader(lines, is_text=not text_model.reads_trees) if is_parsed else lines


def count_sources(path, encoding_errors="error"):
    """Returns how many lines, or sentences of CoNLL-U, a file has.

    Whatever is wrong with any line of it is known afterwards.

    Args:
        path: A regular file, as it is to be read again.
        encoding_errors: As for `LineReader`.
    """
    open_file(path).close()
    with LineReader(path, encoding_errors) as lines:
        return sum(1 for _ in (SentenceReader(lines) if is_conllu_file(path) else lines))


def require_parallel(paths, encoding_errors="error"):
    """Returns how many lines each of the files has; an error if they differ, or have none.

    Args:
        paths: One or more regular files; line n of one goes with line n of the others. Of a file
            that ends with .conllu it is sentence n.
        encoding_errors: As for `LineReader`.
    """
    counts = [count_sources(path, encoding_errors) for path in paths]
    units = ["sentence" if is_conllu_file(path) else "line" for path in paths]
    for path, unit, count in zip(paths, units, counts, strict=True):
        if count != counts[0]:
            raise UserError(
                f"{paths[0]}: {units[0]} count {counts[0]:,}, but {path}: {unit} count {count:,}. "
                f"{units[0].capitalize()} n of one must go with {unit} n of the other: find what "
                "is missing."
            )
    if not counts[0]:
        raise UserError(f"{paths[0]}: no {units[0]}s. Check that this is the right file.")
    return counts[0]


_FIRST_LINES = 8
# So many long lines would take much memory at once, and are no faster together.
_MOST_CHARACTERS = 1 << 22


def in_windows(lines, largest, is_growing=True, characters=len):
    """Yields lists of lines that together are all of them, in order, to be answered at once.

    The first lists are short, so that the first answer is there soon; then they grow, as the model
    is fastest with many lines, which it sorts by length. A list ends early when its lines are very
    long, or when the next line has to be waited for.

    Args:
        lines: An iterable. If it has a method `must_wait`, as a `LineReader` has, that tells when
            to wait no longer.
        largest: How many lines a list has at most.
        is_growing: False if all lists, but the last, are to have `largest` lines, however long
            they take to come.
        characters: A function that gives the length of a line.

    Example:

    >>> [len(window) for window in in_windows("a" * 100, largest=32)]
    [8, 16, 32, 32, 12]
    """
    size = min(_FIRST_LINES, largest) if is_growing else largest
    must_wait = is_growing and getattr(lines, "must_wait", None)
    window, length = [], 0
    for line in lines:
        window.append(line)
        length += characters(line)
        is_full = len(window) == size or length >= _MOST_CHARACTERS
        if is_full or (must_wait and must_wait()):
            yield window
            window, length = [], 0
            size = min(2 * size, largest) if is_full else size
    if window:
        yield window
