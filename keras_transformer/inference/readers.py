"""Readers of lines and of CoNLL-U sentences."""

import io
import itertools
import os
import pathlib
import select
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.conllu import conllu_text, is_conllu_file
from keras_transformer.data.corpora.corpus import TOO_LONG, BadRecordError, Tally
from keras_transformer.data.corpora.file_corpus import (
    BUFFER_BYTES,
    ENCODING_FIX,
    decode_lines,
    open_file,
    unpack,
)

if TYPE_CHECKING:
    from keras_transformer.inference.text_model import TextModel

_Path = str | os.PathLike[str]

#: A longer line is an error: the file has no line feeds, or is not text.
MAXIMUM_CHARACTERS = 1_000_000

# Time to wait for the next line of a pipe before the lines read so far are answered.
_PATIENCE_SECONDS = 0.05


class LineReader:
    """Iterator of the lines of a file or of standard input.

    A line ends with LF or CRLF, the last one also with the file; other line separators of Unicode
    belong to the text. Gzip is recognized by the content of the file, not by its name.

    Args:
        path: the file, which may be a named pipe. Default None, standard input.
        encoding_errors: "error" reports NUL and bytes that are not UTF-8; "replace" replaces them
            by U+FFFD and counts them. Default "error".

    Attributes:
        name: name of the file in messages.

    Raises:
        UserError: if the file cannot be opened; while reading, if it is not text or damaged gzip.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "greetings.txt")
    >>> _ = path.write_bytes(b"Guten Tag\\r\\n\\nDanke")
    >>> with LineReader(path) as lines:
    ...     list(lines)
    ['Guten Tag', '', 'Danke']
    """

    def __init__(self, path: _Path | None = None, encoding_errors: str = "error") -> None:
        choices = ("error", "replace")
        self.encoding_errors: str = require_choice("encoding_errors", encoding_errors, choices)
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

    def __exit__(self, *error: object) -> None:
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
            elif (place := pathlib.Path(path)).is_fifo() or place.is_char_device():
                raw = _Pipe(path)  # a named pipe, `<(…)` or `/dev/stdin`, which is read only once
            else:
                return open_file(path)
        except OSError as error:
            problem = f"cannot be read: {error.strerror}."
            raise UserError(problem, where=self.name, fix=fix) from None
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            self._pipe = raw
        return io.BufferedReader(raw, BUFFER_BYTES)

    def _read(self) -> Iterator[str]:
        stream = unpack(self._file)
        if stream is not self._file:
            self._pipe = None
        settings = self._tally, self.encoding_errors, MAXIMUM_CHARACTERS
        yield from map(self._require_text, decode_lines(stream, self.name, *settings))

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
    """A file from which a buffer can read no further bytes while it is shut."""

    is_shut = False

    def readinto(self, buffer: Any) -> int | None:
        return None if self.is_shut else super().readinto(buffer)


class SentenceReader:
    """Iterator of the sentences of a `LineReader` whose lines are CoNLL-U.

    A sentence ends with a blank line. A line that cannot belong to a sentence of CoNLL-U, because
    it has no tab and is no comment, is plain text: a sentence by itself.

    Args:
        lines: the `LineReader`.
        is_text: whether to return the words of a sentence, not its CoNLL-U. Default False.

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
        groups = itertools.groupby(self._lines, lambda line: "\t" in line or line.startswith("#"))
        for is_sentence, lines in groups:
            if is_sentence:
                yield "\n".join(lines)
            else:
                yield from filter(str.strip, lines)


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
        paths: regular files; line n of one, or sentence n of a .conllu, belongs to n of the others.
        encoding_errors: see `LineReader`.
    """
    counts = [count_sources(path, encoding_errors) for path in paths]
    units = ["sentence" if is_conllu_file(path) else "line" for path in paths]
    first, count_of_first = units[0], counts[0]
    for path, unit, count in zip(paths, units, counts, strict=True):
        if count != count_of_first:
            raise UserError(
                f"{first} count {count_of_first:,}, but {path}: {unit} count {count:,}.",
                where=paths[0],
                fix=f"{first.capitalize()} n of one must belong to {unit} n of the other: find "
                "what is missing.",
            )
    if not count_of_first:
        fix = "Check that this is the right file."
        raise UserError(f"no {first}s.", where=paths[0], fix=fix)
    return count_of_first
