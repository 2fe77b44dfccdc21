"""Readers of lines and of CoNLL-U sentences, and their grouping for a model."""

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text, is_conllu_file
from keras_transformer.data.corpora.corpus import TOO_LONG, BadRecordError, Tally
from keras_transformer.data.corpora.file_corpus import BUFFER_BYTES, open_file
from keras_transformer.data.corpora.text_file import ENCODING_FIX, decode_lines, unpack

if TYPE_CHECKING:
    from keras_transformer.inference.text_model import TextModel

_Item = TypeVar("_Item")
_Path = str | os.PathLike[str]

#: A longer line is an error: the file has no line feeds, or is not text.
MAXIMUM_CHARACTERS = 1_000_000

# Time to wait for the next line of a pipe before the lines read so far are answered.
_PATIENCE_SECONDS = 0.05

# Sizes of the lists of `in_windows`.
_FIRST_LINES = 8
# More characters at once would take much memory, and are no faster together.
_MAXIMUM_WINDOW_CHARACTERS = 1 << 22


class LineReader:
    """Iterator of the lines of a file or of standard input.

    A line ends with LF or CRLF, the last one also with the file; other line separators of Unicode
    belong to the text. Gzip is recognized by the content of the file, not by its name.

    Args:
        path: the file, which may be a named pipe. Default None, standard input.
        encoding_errors: "error" reports bytes that are not UTF-8, and NUL, with file, line and
            byte; "replace" replaces them by U+FFFD and counts them. Default "error".

    Attributes:
        name: name of the file in messages.

    Raises:
        UserError: if the file cannot be opened; while reading, if it is not UTF-8 text or is
            damaged gzip.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "greetings.txt")
    >>> _ = path.write_bytes(b"Guten Tag\\r\\n\\nDanke")
    >>> with LineReader(path) as lines:
    ...     list(lines)
    ['Guten Tag', '', 'Danke']
    """

    def __init__(self, path: _Path | None = None, encoding_errors: str = "error") -> None:
        self.encoding_errors: str = require_choice(
            "encoding_errors", encoding_errors, ("error", "replace")
        )
        self.name: str = "standard input" if path is None else os.fspath(path)
        self._tally = Tally()
        self._pipe: _Pipe | None = None
        self._file = self._open(path)
        # Nothing is read before the first line is needed: that could wait for a terminal.
        self._lines: Any = self._read()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return next(self._lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def replaced(self) -> int:
        """Number of byte sequences that were replaced by U+FFFD so far."""
        return self._tally.replacements

    @property
    def is_terminal(self) -> bool:
        """True if a person types the lines."""
        return self._file.isatty()

    def close(self) -> None:
        """Closes the file. Standard input stays open."""
        self._lines.close()
        self._file.close()

    def must_wait(self) -> bool:
        """Returns whether the next line of a pipe or terminal is not available yet.

        It is always available from a file and from gzip. The check takes at most 0.05 s.
        """
        if self._pipe is None:
            return False
        # `peek` reads from the pipe if its buffer is empty, and would wait then.
        self._pipe.is_shut = True
        left = self._file.peek()
        self._pipe.is_shut = False
        if b"\n" in left:
            return False
        return not select.select([self._pipe], [], [], _PATIENCE_SECONDS)[0]

    def _open(self, path: _Path | None) -> Any:
        fix = "Give a file with `input`."
        if path is None and sys.stdin is None:
            raise UserError("is closed.", where=self.name, fix=fix)
        try:
            if path is None:
                raw = _Pipe(0, closefd=False)
            elif _is_pipe(path):
                raw = _Pipe(path)
            else:
                return open_file(path)
        except OSError as error:
            raise UserError(
                f"cannot be read: {error.strerror}.", where=self.name, fix=fix
            ) from None
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            self._pipe = raw
        return io.BufferedReader(raw, BUFFER_BYTES)

    def _read(self) -> Iterator[str]:
        stream = unpack(self._file)
        if stream is not self._file:
            self._pipe = None
        for line in decode_lines(
            stream, self.name, self._tally, self.encoding_errors, MAXIMUM_CHARACTERS
        ):
            yield self._require_text(line)

    def _require_text(self, line: Any) -> str:
        """Returns the text of a line without NUL; a line that is not text is a `UserError`."""
        if isinstance(line, BadRecordError):
            raise line
        if line is TOO_LONG or len(line) > MAXIMUM_CHARACTERS:
            raise UserError(
                f"longer than {MAXIMUM_CHARACTERS:,} characters.",
                where=self._tally.where,
                fix="Put each sentence or paragraph on a line of its own.",
            )
        if "\0" in line:
            if self.encoding_errors == "error":
                raise UserError(
                    "a NUL byte; this is UTF-16, or not text.",
                    where=f"{self._tally.where}:{line.encode().index(0) + 1}",
                    fix=ENCODING_FIX,
                )
            self._tally.replacements += line.count("\0")
            line = line.replace("\0", "\ufffd")
        return line


class _Pipe(io.FileIO):
    """A file that gives a buffer over it no more bytes while it is shut."""

    is_shut = False

    def readinto(self, buffer: Any) -> int | None:
        return None if self.is_shut else super().readinto(buffer)


def _is_pipe(path: _Path) -> bool:
    """Returns whether a path can be read only once: a named pipe, `<(…)`, `/dev/stdin`."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


class SentenceReader:
    """Iterator of the sentences of a `LineReader` whose lines are CoNLL-U.

    A sentence ends with a blank line. A line that cannot belong to a sentence of CoNLL-U, because
    it has no tab and is no comment, is plain text: a sentence by itself.

    Args:
        lines: the `LineReader`.
        is_text: whether to return the words of a sentence joined with spaces, for models that read
            no trees, instead of CoNLL-U. Default False.

    Example:

    >>> class Lines(list):
    ...     name = "made up"
    >>> words = ["1 Dogs _ _ _ _ 2 _ _ _", "2 sleep _ _ _ _ 0 _ _ _"]
    >>> words = [word.replace(" ", "\\t") for word in words]
    >>> list(SentenceReader(Lines(["# sent_id = 1", *words, "", "Good night"]), is_text=True))
    ['Dogs sleep', 'Good night']
    """

    def __init__(self, lines: Any, is_text: bool = False) -> None:
        self.name: str = lines.name
        self._lines = lines
        self._sentences = self._read()
        self._convert: Callable[[str], str] = conllu_text if is_text else str

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return self._convert(next(self._sentences))

    @property
    def is_terminal(self) -> bool:
        """True if a person types the lines."""
        return self._lines.is_terminal

    def must_wait(self) -> bool:
        """Returns whether the next line is not available yet, see `LineReader.must_wait`."""
        return self._lines.must_wait()

    def _read(self) -> Iterator[str]:
        sentence: list[str] = []
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


def as_sources(
    lines: LineReader, path: _Path | None, text_model: "TextModel"
) -> "LineReader | SentenceReader":
    """Returns an iterator of the source texts that a model gets from a file.

    These are CoNLL-U sentences if the name of the file ends with .conllu, and in standard input for
    a model that reads trees; otherwise the lines.

    Args:
        lines: the `LineReader` of the file.
        path: path of the file; None for standard input.
        text_model: the `TextModel`.
    """
    is_parsed = text_model.reads_trees if path is None else is_conllu_file(path)
    return SentenceReader(lines, is_text=not text_model.reads_trees) if is_parsed else lines


def count_sources(path: _Path, encoding_errors: str = "error") -> int:
    """Returns the number of lines, or of CoNLL-U sentences, of a file.

    The whole file is read, so that mistakes in any line are reported before other work.

    Args:
        path: a regular file, which can be read again.
        encoding_errors: see `LineReader`.
    """
    open_file(path).close()
    with LineReader(path, encoding_errors) as lines:
        return sum(1 for _ in (SentenceReader(lines) if is_conllu_file(path) else lines))


def require_parallel(paths: Sequence[_Path], encoding_errors: str = "error") -> int:
    """Returns the number of lines of each file; different numbers, or none, are a `UserError`.

    Args:
        paths: one or more regular files; line n of one belongs to line n of the others. In a file
            whose name ends with .conllu it is sentence n.
        encoding_errors: see `LineReader`.
    """
    counts = [count_sources(path, encoding_errors) for path in paths]
    units = ["sentence" if is_conllu_file(path) else "line" for path in paths]
    for path, unit, count in zip(paths, units, counts, strict=True):
        if count != counts[0]:
            raise UserError(
                f"{units[0]} count {counts[0]:,}, but {path}: {unit} count {count:,}.",
                where=paths[0],
                fix=f"{units[0].capitalize()} n of one must belong to {unit} n of the other: find "
                "what is missing.",
            )
    if not counts[0]:
        raise UserError(
            f"no {units[0]}s.", where=paths[0], fix="Check that this is the right file."
        )
    return counts[0]


def in_windows(
    lines: Iterable[_Item],
    largest: int,
    is_growing: bool = True,
    characters: Callable[[Any], int] = len,
) -> Iterator[list[_Item]]:
    """Yields lists of consecutive lines, to be processed at once.

    The first lists are short, so that the first result is available soon. Then they grow, because
    the model is fastest with many lines, which it sorts by length. A list ends early if its lines
    are very long, or if the next line is not available yet.

    Args:
        lines: the lines. If they have a method `must_wait`, as a `LineReader` has, it tells whether
            the next line is not available yet.
        largest: maximum number of lines of a list.
        is_growing: False if all lists but the last must have `largest` lines, however long they
            take to arrive. Default True.
        characters: function that returns the length of a line. Default `len`.

    Example:

    >>> [len(window) for window in in_windows("a" * 100, largest=32)]
    [8, 16, 32, 32, 12]
    """
    size = min(_FIRST_LINES, largest) if is_growing else largest
    must_wait = getattr(lines, "must_wait", None) if is_growing else None
    window: list[_Item] = []
    length = 0
    for line in lines:
        window.append(line)
        length += characters(line)
        is_full = len(window) == size or length >= _MAXIMUM_WINDOW_CHARACTERS
        if is_full or (must_wait is not None and must_wait()):
            yield window
            window, length = [], 0
            size = min(2 * size, largest) if is_full else size
    if window:
        yield window
