"""What the corpora on disk have in common."""

import abc
import dataclasses
import glob
import hashlib
import json
import os

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import Corpus, ReadingRules
from keras_transformer.data.corpora.text_file import TOO_LONG, Tally, open_file, read_lines


@dataclasses.dataclass(frozen=True)
class FileState:
    """Size, time of modification and sha256 of a file, as they were when it was first read.

    Build it with `FileState.of(path)`; call `verify()` before the file is relied on again.
    """

    path: str
    size: int
    modified: int
    sha256: str

    @classmethod
    def of(cls, path):
        """Reads the file once. The bytes are those on disk: of a gzip file, the packed ones."""
        with open_file(path) as file:
            before = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise UserError(f"{path}: changed while it was read. Start again when it is complete.")
        return cls(os.fspath(path), after.st_size, after.st_mtime_ns, digest)

    def verify(self):
        """Returns the state as it is now, which has the same content.

        Reading the whole file again is needed only when the time of modification differs and the
        size does not, as after `touch` or a restored backup.

        Raises:
            UserError: If the content is another one.
        """
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise self._changed(f"it cannot be read any more: {error.strerror}") from error
        if now.st_size != self.size:
            raise self._changed(f"{self.size:,} bytes then, {now.st_size:,} now")
        if now.st_mtime_ns == self.modified:
            return self
        state = FileState.of(self.path)
        if state.sha256 != self.sha256:
            raise self._changed("the size is the same, the content is not")
        return state

    def _changed(self, difference):
        return UserError(
            f"{self.path}: changed since it was checked ({difference}). "
            "Leave the corpus alone during a run, or start again with the new one."
        )


def find_files(name, paths):
    """Returns the files that `paths` means, patterns expanded in sorted order.

    Args:
        name: The name of the argument, for messages.
        paths: A path, a pattern such as `"parts/*.gz"`, or a list of them. A path that exists is
            taken literally, also when it holds `*`, `?` or `[`.

    Raises:
        UserError: If a pattern matches nothing, or there are no paths at all.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(
                f"`{name}` must be a path or a list of paths; got {path!r} among them."
            )
        path = os.fspath(path)
        if any(letter in path for letter in "*?[") and not os.path.lexists(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise UserError(
                    f"{path}: no file matches this pattern (the current directory is "
                    f"{os.getcwd()}). Check the pattern."
                )
            files.extend(matches)
        else:
            files.append(path)
    if not files:
        raise UserError(f"`{name}` names no files; give at least one path or pattern.")
    return tuple(files)


# Part of every fingerprint: raise it when the same files begin to yield other examples.
_READING_VERSION = 1

# Room on a line for what is not read: keys, tabs, other columns and values.
UNREAD_CHARACTERS = 1 << 20


class FileCorpus(Corpus):
    """A corpus in text files, plain or gzip.

    It looks at each file when it is made, so that a missing or unreadable one is known at once.
    From the first `check()` or `fingerprint()` on, a file that changes is an error.

    Args:
        files: The paths.
        rules: A `ReadingRules`.
    """

    def __init__(self, files, rules):
        if not isinstance(rules, ReadingRules):
            raise ValueError(f"`rules` must be a `ReadingRules`; got {rules!r}.")
        self.files = files
        self.rules = rules
        self._states = {}
        first, *others = files
        self.name = f"{first} and {len(others):,} more" if others else str(first)
        for path in files:
            next(self.lines(path, Tally()), None)

    @abc.abstractmethod
    def records(self, tally):
        """Yields, for each line or document, a tuple of texts, a `BadLine` or `TOO_LONG`."""

    @abc.abstractmethod
    def settings(self):
        """Returns what decides, besides the files and the rules, which examples they yield."""

    def read(self, tally):
        for record in self.records(tally):
            if record is TOO_LONG:
                tally.too_long += 1
            elif not isinstance(record, tuple):
                tally.refuse(record, self.rules)
            elif not all(record) or any(map(str.isspace, record)):
                tally.blank_lines += 1
            else:
                yield record

    def lines(self, path, tally, max_characters=None):
        """Yields what `read_lines` yields, after and before a look at whether the file changed."""
        self._verify(path)
        yield from read_lines(
            path, tally, self.rules.encoding_errors, max_characters or self.rules.max_characters
        )
        self._verify(path)

    def check(self):
        self._remember_files()
        return super().check()

    def fingerprint(self):
        self._remember_files()
        content = {
            "version": _READING_VERSION,
            "kind": type(self).__name__,
            "settings": self.settings(),
            "rules": vars(self.rules),
            "files": [self._states[path].sha256 for path in self.files],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _remember_files(self):
        for path in self.files:
            self._verify(path)
            if path not in self._states:
                self._states[path] = FileState.of(path)

    def _verify(self, path):
        if path in self._states:
            self._states[path] = self._states[path].verify()
