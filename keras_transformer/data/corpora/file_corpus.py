"""What the corpora on disk have in common."""

import abc
import hashlib
import json

from keras_transformer.data.corpora.corpus import Corpus
from keras_transformer.data.corpora.file_state import FileState
from keras_transformer.data.corpora.reading_rules import ReadingRules
from keras_transformer.data.corpora.tally import TOO_LONG, Tally
from keras_transformer.data.corpora.text_file import read_lines

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
