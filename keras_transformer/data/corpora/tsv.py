"""Examples in files of tab-separated values."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.corpus import ReadingRules, Record, Tally, find_column_set
from keras_transformer.data.corpora.file_corpus import (
    UNREAD_CHARACTERS,
    Paths,
    TextFileCorpus,
    count_columns,
    is_blank,
)
from keras_transformer.data.corpora.formats import register_format

_DEFAULT_COLUMNS = ("source", "target")
# Usual names of columns, or two letters for a language.
_HEADER_NAME = re.compile(
    "source|target|src|tgt|trg|text|label|class|id|input|output|sentence|translation|[a-z]{2}"
)


@register_format("tsv")
class TsvCorpus(TextFileCorpus):
    """Examples in tab-separated files, one per line.

    A tab always separates columns: there are no quotes and no escapes. A line with more or fewer
    columns than named is a bad line; columns are never shifted.

    Args:
        paths: A path, a pattern, or a list of them.
        columns: Name of each column of the file, from left to right. `"source"` and `"target"`, or
            `"text"`, or `"text"` and `"label"`, are read; columns with other names are ignored.
        has_header: Whether the first line of each file is a header.
        rules: A `ReadingRules`.
    """

    title: ClassVar[str] = "tab-separated values, one example per line"
    extensions: ClassVar[tuple[str, ...]] = (".tsv", ".tab")
    options: ClassVar[Mapping[str, str]] = {
        "columns": "names of all columns (default: source,target)",
        "has_header": "whether the first line of each file is a header",
    }

    def __init__(
        self,
        paths: Paths,
        columns: Iterable[str] = _DEFAULT_COLUMNS,
        has_header: bool = False,
        rules: ReadingRules = ReadingRules(),
    ) -> None:
        self._file_columns = tuple(columns)
        self.columns: tuple[str, ...] = find_column_set(self._file_columns)
        names = ", ".join(self._file_columns)
        self._expected = f"{count_columns(len(self._file_columns))} ({names}) were expected"
        self._indices = [self._file_columns.index(column) for column in self.columns]
        self._has_header = bool(has_header)
        super().__init__(paths, rules)

    @classmethod
    def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
        return find_column_set(options.get("columns", _DEFAULT_COLUMNS))

    @classmethod
    def looks_like(cls, lines: Sequence[str]) -> bool:
        tabs = {line.count("\t") for line in lines}
        return len(tabs) == 1 and tabs != {0}

    def settings(self) -> dict[str, Any]:
        return {"columns": self._file_columns, "has_header": self._has_header}

    def records(self, tally: Tally) -> Iterator[Record]:
        number, expected = len(self._file_columns), self._expected
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
                if is_blank(line):
                    yield ("",)
                elif len(fields) != number:
                    yield tally.bad_record(
                        f"{count_columns(len(fields))}, but {expected}.",
                        "Put one tab between two columns.",
                    )
                else:
                    yield tuple([fields[index] for index in self._indices])

    def _check_header(self, fields: list[str], tally: Tally) -> None:
        if len(fields) != len(self._file_columns):
            problem = f"the header has {count_columns(len(fields))}, but {self._expected}."
            fix = "Name every column of the file in `columns`."
            raise UserError(problem, where=tally.where, fix=fix)
        for index, name in zip(self._indices, self.columns, strict=True):
            if name in fields and fields[index] != name:
                raise UserError(
                    f"the header calls column {fields.index(name) + 1} {name!r}, but `columns` "
                    f"says it is column {index + 1}.",
                    where=tally.where,
                    fix="Give `columns` in the order of the file.",
                )

    def _warn_of_header(self, fields: list[str], tally: Tally) -> None:
        if all(_HEADER_NAME.fullmatch(field.strip().lower()) for field in fields):
            tally.warnings.append(
                f"{tally.where}: looks like a header ({', '.join(fields)}) but is read as an "
                "example. If it is a header, set `has_header`."
            )
