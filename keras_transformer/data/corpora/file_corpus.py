"""Base classes of the corpora in files: finding, fingerprinting and reading the files.

No line is lost, joined or split without notice, and memory is bounded however long a line is.
"""

import abc
import codecs
import dataclasses
import functools
import glob
import gzip
import hashlib
import io
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import (
    TOO_LONG,
    BadRecordError,
    Corpus,
    Example,
    ReadingRules,
    Record,
    Tally,
    TooLong,
)

#: A path, a pattern such as `"parts/*.gz"`, or a list of them.
Paths: TypeAlias = Path | Iterable[Path]

#: Size of the buffer through which files are read.
BUFFER_BYTES = 1 << 18


def open_file(path: Path) -> io.BufferedReader:
    """Opens a regular file for reading bytes; raises `UserError` if that is impossible."""
    fix = "Check the path."
    try:
        mode = os.stat(path).st_mode
        # Opening a named pipe would wait until another process writes to it.
        if stat.S_ISREG(mode):
            return io.BufferedReader(io.FileIO(path), BUFFER_BYTES)
        problem = "is not a regular file."
        fix = "A corpus is read more than once: save it to a file first."
        if stat.S_ISDIR(mode):
            problem = "is a directory."
            fix = f"Name a file in it, or a pattern: {os.path.join(path, '*')}."
    except FileNotFoundError:
        problem = f"no such file (the current directory is {os.getcwd()})."
    except PermissionError:
        problem, fix = "permission denied.", "Make it and its directories readable: chmod u+r."
    except OSError as error:
        problem = f"cannot be opened: {error.strerror}."
    raise UserError(problem, where=path, fix=fix)


def find_files(name: str, paths: Paths) -> tuple[str, ...]:
    """Returns the files that `paths` names, with patterns expanded in sorted order.

    Args:
        name: Name of the argument in messages.
        paths: A path, a pattern, or a list of them. An existing path is never a pattern.
    """
    files: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        if not isinstance(path, (str, os.PathLike)):
            raise UserError(f"`{name}` must be a path or a list of paths; got {path!r} in it.")
        path = os.fspath(path)
        if any(letter in path for letter in "*?[") and not os.path.lexists(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                problem = f"no file matches this pattern (the current directory is {os.getcwd()})."
                raise UserError(problem, where=path, fix="Check the pattern.")
            files.extend(matches)
        else:
            files.append(path)
    if not files:
        raise UserError(f"`{name}` names no files.", fix="Give at least one path or pattern.")
    return tuple(files)


@dataclasses.dataclass(frozen=True)
class FileState:
    """Size in bytes, modification time in nanoseconds, and sha256 of a file when it was read."""

    path: str
    size: int
    modified: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Reads a file and returns its state. For gzip files these are the compressed bytes."""
        with open_file(path) as file:
            before = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            fix = "Start again when it is complete."
            raise UserError("changed while it was read.", where=path, fix=fix)
        return cls(os.fspath(path), after.st_size, after.st_mtime_ns, digest)

    def verify(self) -> "FileState":
        """Returns the current state; raises a `UserError` if the content has changed."""
        try:
            now = os.stat(self.path)
            if (now.st_size, now.st_mtime_ns) == (self.size, self.modified):
                return self
            difference = f"{self.size:,} bytes then, {now.st_size:,} now"
            if now.st_size == self.size:  # it may have been touched, or restored from a backup
                state = FileState.of(self.path)
                if state.sha256 == self.sha256:
                    return state
                difference = "the size is the same, the content is not"
        except OSError as error:
            difference = f"it cannot be read now: {error.strerror}"
        fix = "Do not change the corpus during a run, or start again with the new one."
        raise UserError(f"changed since it was checked ({difference}).", where=self.path, fix=fix)


# Part of every fingerprint: increase it when a change of the code makes files yield other examples.
_READING_VERSION = 1


class FileCorpus(Corpus):
    """Base of the corpora in files of any format. Subclasses yield the records.

    The constructor probes each file. From the first `check()` or `fingerprint()` on, a file that
    changes is an error. Class attributes and `open` describe the format to `open_corpus`, recipes
    and the command line.

    Args:
        paths: A path, a pattern, or a list of them.
        rules: A `ReadingRules`.
    """

    #: Name of the format, set by `register_format`.
    registered_name: ClassVar[str]
    #: Description of the format in listings.
    title: ClassVar[str]
    #: File name extensions, in lower case, by which the format is chosen.
    extensions: ClassVar[tuple[str, ...]] = ()
    #: Whether ".gz" may follow the extension: True for text files.
    may_be_gzip: ClassVar[bool] = False
    #: Options of the format (keyword arguments of the constructor) with their descriptions.
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, paths: Paths, rules: ReadingRules = ReadingRules()) -> None:
        if not isinstance(rules, ReadingRules):
            raise UserError(f"`rules` must be a `ReadingRules`; got {rules!r}.")
        self.files: tuple[str, ...] = find_files("paths", paths)
        self.rules: ReadingRules = rules
        self._states: dict[str, FileState] = {}
        first, *others = self.files
        self.name: str = f"{first} and {len(others):,} more" if others else first
        for path in self.files:
            self.probe(path)

    @classmethod
    def claims(cls, files: Iterable[Path]) -> bool:
        """Returns whether the names of the files suggest this format."""
        names = (os.fspath(file).lower() for file in files)
        if cls.may_be_gzip:
            names = (name.removesuffix(".gz") for name in names)
        return all(name.endswith(cls.extensions) for name in names)

    @classmethod
    def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
        """Returns the columns of the corpus that `open` would return, without opening files."""
        return cls.columns

    @classmethod
    def open(cls, files: Iterable[Path], rules: ReadingRules, **options: Any) -> "FileCorpus":
        """Returns the corpus in some files; the options are those of the constructor."""
        return cls(files, rules=rules, **options)

    @abc.abstractmethod
    def records(self, tally: Tally) -> Iterable[Record]:
        """Yields an example (a text for each column), `BadRecordError` or `TOO_LONG` per record.

        Sets `tally.path` and `tally.line_number`. Calls `verify` before and after reading a file.
        """

    def settings(self) -> dict[str, Any]:
        """Returns, for JSON, the options that decide which examples are yielded. Default: none."""
        return {}

    def probe(self, path: str) -> None:
        """Raises a `UserError` if a file cannot be read. Subclasses may check more."""
        open_file(path).close()

    def read(self, tally: Tally) -> Iterator[Example]:
        limit = self.rules.max_characters
        for record in self.records(tally):
            if not isinstance(record, tuple):
                tally.skip(record, self.rules)
                continue
            text = "".join(record)  # faster than a loop over the columns
            if "\0" in text:
                record = tuple(map(tally.without_nul, record))
            if len(text) > limit and max(map(len, record)) > limit:
                tally.too_long += 1
            elif not all(map(str.strip, record)):
                tally.blank_lines += 1
            else:
                yield record

    def fingerprint(self) -> str:
        for path in self.files:
            self.verify(path)
            if path not in self._states:
                self._states[path] = FileState.of(path)
        content = {
            "version": _READING_VERSION,
            "kind": type(self).__name__,
            "settings": self.settings(),
            "rules": vars(self.rules),
            "files": [self._states[path].sha256 for path in self.files],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def verify(self, path: str) -> None:
        """Raises a `UserError` if a file has changed since the first check or fingerprint."""
        if path in self._states:
            self._states[path] = self._states[path].verify()


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

    may_be_gzip: ClassVar[bool] = True

    @classmethod
    def looks_like(cls, lines: Sequence[str]) -> bool:
        """Returns whether the first lines of a file suggest this format; its name is ignored."""
        return False

    def probe(self, path: str) -> None:
        # An unreadable start (another encoding, damaged gzip) is an error before any work.
        next(self.lines(path, Tally()), None)

    def lines(self, path: str, tally: Tally, max_characters: int | None = None) -> Iterator[Line]:
        """Yields what `decode_lines` yields for a file, which must not change meanwhile.

        A line of more than `max_characters`, by default that of the rules, is yielded as
        `TOO_LONG`. NUL characters are removed and counted.
        """
        limit = max_characters or self.rules.max_characters
        self.verify(path)
        with open_file(path) as file:
            stream = unpack(file)
            for line in decode_lines(stream, path, tally, self.rules.encoding_errors, limit):
                if isinstance(line, str):
                    line = tally.without_nul(line)
                    if len(line) > limit:
                        line = TOO_LONG
                yield line
        self.verify(path)


def is_blank(line: Line) -> bool:
    """Returns whether a line consists of white space; bad and long lines do not."""
    return isinstance(line, str) and (not line or line.isspace())


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
    the start is removed. A line with more than 4 bytes for each of `max_characters` is `TOO_LONG`
    and never held whole. `name` is the file in messages, and `encoding_errors` as in
    `ReadingRules`. A stream that is not UTF-8 text as a whole, or damaged gzip, is an error.
    """
    # A character takes at most 4 bytes in UTF-8; 2 more for CRLF, 1 to detect a longer line.
    limit = 4 * max_characters + 3
    number = 0
    try:
        _skip_byte_order_mark(stream, name)
        for number, raw in enumerate(iter(functools.partial(stream.readline, limit), b""), start=1):
            # Two files may be read in turn with one tally.
            tally.path, tally.line_number = name, number
            is_cut = len(raw) == limit and not raw.endswith(b"\n")
            yield _decode(raw, is_cut, tally, encoding_errors)
            while is_cut and (piece := stream.readline(BUFFER_BYTES)):
                is_cut = not piece.endswith(b"\n")
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


def _decode(raw: bytes, is_cut: bool, tally: Tally, encoding_errors: str) -> Line:
    """Returns the text of a line, or what is wrong with it. There is more of a cut line."""
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
