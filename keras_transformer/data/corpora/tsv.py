"""Examples in files of tab-separated values."""

import re

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.corpus import ReadingRules, find_column_set
from keras_transformer.data.corpora.file_corpus import UNREAD_CHARACTERS, FileCorpus, find_files
from keras_transformer.data.corpora.text_file import TOO_LONG, BadLine

# Usual names of columns, or two letters for a language.
_HEADER_NAME = re.compile(
    "source|target|src|tgt|trg|text|label|class|id|input|output|sentence|translation|[a-z]{2}"
)


class TsvCorpus(FileCorpus):
    """Examples in tab-separated files, one on a line.

    A tab always separates: there are no quotes and no escapes. A line with more or fewer columns
    than named is a bad line; columns are never shifted.

    Args:
        paths: A path, a pattern, or a list of them.
        columns: The name of each column of the file, from left to right. `"source"` and
            `"target"`, or `"text"`, or `"text"` and `"label"`, are read; any other name stands for
            a column that is ignored.
        has_header: Whether the first line of each file holds names and no example.
        rules: A `ReadingRules`.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "pairs.tsv")
    ...     _ = path.write_text("17\\tGood day\\tGuten Tag\\n")
    ...     list(TsvCorpus(path, columns=("id", "target", "source")))
    [('Guten Tag', 'Good day')]
    """

    def __init__(
        self,
        paths,
        columns=("source", "target"),
        has_header=False,
        rules=ReadingRules(),
    ):
        self._file_columns = tuple(columns)
        self.columns = find_column_set(self._file_columns)
        self._places = [self._file_columns.index(column) for column in self.columns]
        self._has_header = bool(has_header)
        super().__init__(find_files("paths", paths), rules)

    def settings(self):
        return {"columns": self._file_columns, "has_header": self._has_header}

    def records(self, tally):
        width = len(self._file_columns)
        max_characters = self.rules.max_characters * len(self.columns) + UNREAD_CHARACTERS
        for path in self.files:
            for line in self.lines(path, tally, max_characters):
                if not isinstance(line, str):
                    yield line
                    continue
                fields = line.split("\t")
                if tally.line_number == 1:
                    if self._has_header:
                        self._check_header(fields, tally)
                        continue
                    self._warn_of_header(fields, tally)
                if not line or line.isspace():
                    yield ("",)
                elif len(fields) != width:
                    yield BadLine(
                        f"{tally.place}: {_columns(len(fields))}, but {_columns(width)} "
                        f"({', '.join(self._file_columns)}) were expected",
                        "Put one tab between two columns",
                    )
                else:
                    record = tuple([fields[place] for place in self._places])
                    is_long = max(map(len, record)) > self.rules.max_characters
                    yield TOO_LONG if is_long else record

    def _check_header(self, fields, tally):
        if len(fields) != len(self._file_columns):
            raise UserError(
                f"{tally.place}: the header has {_columns(len(fields))}, but "
                f"{_columns(len(self._file_columns))} ({', '.join(self._file_columns)}) were "
                "expected. Name every column of the file in `columns`."
            )
        for place, name in zip(self._places, self.columns, strict=True):
            if name in fields and fields[place] != name:
                raise UserError(
                    f"{tally.place}: the header calls column {fields.index(name) + 1} {name!r}, "
                    f"but `columns` says it is column {place + 1}. Put `columns` in the order of "
                    "the file."
                )

    def _warn_of_header(self, fields, tally):
        if all(_HEADER_NAME.fullmatch(field.strip().lower()) for field in fields):
            tally.warnings.append(
                f"{tally.place}: looks like a header ({', '.join(fields)}) but is read as an "
                "example. If it is one, set has_header=True."
            )


def _columns(number):
    return f"{number} column{'s' * (number != 1)}"
