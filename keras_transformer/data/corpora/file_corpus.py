"""Corpora of records from files: finding, opening and fingerprinting the files."""

import abc
import dataclasses
import glob
import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeAlias

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import Corpus, Example, ReadingRules, Record, Tally
from keras_transformer.data.corpora.corpus_report import CorpusReport

#: A path, a pattern such as `"parts/*.gz"`, or a list of them.
Paths: TypeAlias = Path | Iterable[Path]

#: Size of the buffer through which files are read.
BUFFER_BYTES = 1 << 18


def open_file(path: Path) -> io.BufferedReader:
    """Opens a regular file for reading bytes; raises `UserError` if that is impossible."""
    try:
        mode = os.stat(path).st_mode
        # Opening a named pipe would wait until somebody writes to it.
        if stat.S_ISREG(mode):
            return io.BufferedReader(io.FileIO(path), BUFFER_BYTES)
    except FileNotFoundError:
        problem = f"no such file (the current directory is {os.getcwd()})."
        raise UserError(problem, where=path, fix="Check the path.") from None
    except PermissionError:
        fix = "Make the file and its directories readable: chmod u+r."
        raise UserError("permission denied.", where=path, fix=fix) from None
    except OSError as error:
        problem = f"cannot be opened: {error.strerror}."
        raise UserError(problem, where=path, fix="Check the path.") from None
    if stat.S_ISDIR(mode):
        fix = f"Name a file in it, or a pattern: {os.path.join(path, '*')}."
        raise UserError("is a directory.", where=path, fix=fix)
    fix = "A corpus is read more than once: save it to a file first."
    raise UserError("is not a regular file.", where=path, fix=fix)


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
            raise UserError(
                "changed while it was read.", where=path, fix="Start again when it is complete."
            )
        return cls(os.fspath(path), after.st_size, after.st_mtime_ns, digest)

    def verify(self) -> "FileState":
        """Returns the current state; raises a `UserError` if the content has changed.

        The file is read only if its modification time has changed and its size has not, as after
        `touch` or a restored backup.
        """
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise self._changed(f"it cannot be read now: {error.strerror}") from error
        if now.st_size != self.size:
            raise self._changed(f"{self.size:,} bytes then, {now.st_size:,} now")
        if now.st_mtime_ns == self.modified:
            return self
        state = FileState.of(self.path)
        if state.sha256 != self.sha256:
            raise self._changed("the size is the same, the content is not")
        return state

    def _changed(self, difference: str) -> UserError:
        return UserError(
            f"changed since it was checked ({difference}).",
            where=self.path,
            fix="Do not change the corpus during a run, or start again with the new one.",
        )


# Part of every fingerprint: increase it when the same files begin to yield other examples.
_READING_VERSION = 1


class FileCorpus(Corpus):
    """Base of the corpora in files, of whatever format. Subclasses yield the records.

    The constructor probes each file. From the first `check()` or `fingerprint()` on, a file that
    changes is an error. Class attributes and `open` describe the format to `open_corpus`, recipes
    and the command line.

    Args:
        files: Paths of the files.
        rules: A `ReadingRules`.
    """

    #: Name of the format, set by `register_format`.
    registered_name: ClassVar[str]
    #: Description of the format in listings.
    title: ClassVar[str]
    #: File name extensions, in lower case, by which the format is chosen; ".gz" is ignored.
    extensions: ClassVar[tuple[str, ...]] = ()
    #: Options of the format (keyword arguments of the constructor) with their descriptions.
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, files: tuple[str, ...], rules: ReadingRules) -> None:
        if not isinstance(rules, ReadingRules):
            raise UserError(f"`rules` must be a `ReadingRules`; got {rules!r}.")
        self.files: tuple[str, ...] = files
        self.rules: ReadingRules = rules
        self._states: dict[str, FileState] = {}
        first, *others = files
        self.name: str = f"{first} and {len(others):,} more" if others else first
        for path in files:
            self.probe(path)

    @classmethod
    def claims(cls, files: Iterable[Path]) -> bool:
        """Returns whether the names of the files suggest this format."""
        return all(file_extension(file) in cls.extensions for file in files)

    @classmethod
    def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
        """Returns the columns of the corpus that `open` would return, without opening files.

        Raises a `UserError` if the number of files or the options do not fit the format.
        """
        return cls.columns

    @classmethod
    def open(cls, files: Iterable[Path], rules: ReadingRules, **options: Any) -> "FileCorpus":
        """Returns the corpus in some files; the options are those of the constructor."""
        return cls(files, rules=rules, **options)  # type: ignore[arg-type]

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

    def check(self) -> CorpusReport:
        self._store_states()
        return super().check()

    def fingerprint(self) -> str:
        self._store_states()
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

    def _store_states(self) -> None:
        for path in self.files:
            self.verify(path)
            if path not in self._states:
                self._states[path] = FileState.of(path)


def file_extension(path: Path) -> str:
    """Returns the extension of a file name in lower case, without regard to a final ".gz".

    >>> file_extension("Pairs.TSV.gz")
    '.tsv'
    """
    return os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
