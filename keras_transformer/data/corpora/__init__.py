'''Corpora: examples from files or memory, streamed, checked and counted. Imports no TensorFlow.

A file format is one file in this folder, which is found automatically: a `FileCorpus` (or a
`TextFileCorpus`, if the files consist of lines) that registers a name. `open_corpus`, recipes and
`keras-transformer data` then know it, by its name and by the extensions of its files. Options of a
format are arguments of its constructor, described in `options`. The file `parquet.py`, for example:

    """Examples in Parquet files."""

    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, ClassVar

    from keras_transformer._utils.errors import UserError
    from keras_transformer._utils.types import Path
    from keras_transformer.data.corpora.corpus import ReadingRules, Record, Tally, find_column_set
    from keras_transformer.data.corpora.file_corpus import FileCorpus, Paths, shorten
    from keras_transformer.data.corpora.formats import register_format

    _DEFAULT_KEYS = {"source": "source", "target": "target"}


    @register_format("parquet")
    class ParquetCorpus(FileCorpus):
        """Examples in Parquet files, whose columns `keys` names."""

        title = "Parquet files"
        extensions = (".parquet",)
        options: ClassVar[Mapping[str, str]] = {
            "keys": "column of each text, such as source=en,target=de"
        }

        def __init__(
            self,
            paths: Paths,
            keys: Mapping[str, str] = _DEFAULT_KEYS,
            rules: ReadingRules = ReadingRules(),
        ) -> None:
            self.columns: tuple[str, ...] = find_column_set(keys, "keys")
            self._keys = [keys[column] for column in self.columns]
            super().__init__(paths, rules)

        @classmethod
        def find_columns(cls, files: Iterable[Path], **options: Any) -> tuple[str, ...]:
            return find_column_set(options.get("keys", _DEFAULT_KEYS), "keys")

        def settings(self) -> dict[str, Any]:
            return {"keys": self._keys}

        def probe(self, path: str) -> None:
            super().probe(path)
            next(self._rows(path), None)  # a wrong file is an error before any work

        def records(self, tally: Tally) -> Iterator[Record]:
            for path in self.files:
                self.verify(path)
                for number, row in enumerate(self._rows(path), start=1):
                    tally.path, tally.line_number = path, number
                    if all(isinstance(value, str) for value in row):
                        yield row
                    else:
                        got = shorten(repr(row), 60)
                        yield tally.bad_record(f"values must be texts; got {got}.", "Correct it.")
                self.verify(path)

        def _rows(self, path: str) -> Iterator[tuple[Any, ...]]:
            try:
                # Not at the top: every process imports the formats, and pyarrow is optional.
                from pyarrow.parquet import ParquetFile  # pyright: ignore[reportMissingImports]
            except ImportError:
                fix = "pip install pyarrow"
                raise UserError("Parquet needs pyarrow.", where=path, fix=fix) from None
            try:
                with ParquetFile(path) as file:
                    found = file.schema_arrow.names
                    if missing := [key for key in self._keys if key not in found]:
                        problem = f"no column {missing[0]!r}; found {', '.join(map(repr, found))}."
                        raise UserError(problem, where=path, fix="Name the columns in `keys`.")
                    for rows in file.iter_batches(columns=self._keys):
                        columns = [rows.column(key).to_pylist() for key in self._keys]
                        yield from zip(*columns, strict=True)
            except UserError:
                raise
            except (OSError, ValueError) as error:  # pyarrow's own errors are among them
                fix = "Copy or download the file again."
                raise UserError(f"is damaged: {error}.", where=path, fix=fix) from None
'''

from keras_transformer._utils.registry import import_members
from keras_transformer.data.corpora.conllu import ConlluCorpus, DependencyTree
from keras_transformer.data.corpora.corpus import (
    TOO_LONG,
    BadRecordError,
    Corpus,
    LabeledCorpus,
    MemoryCorpus,
    ReadingRules,
    Tally,
)
from keras_transformer.data.corpora.corpus_report import (
    CorpusReport,
    LengthSummary,
    count_overlaps,
)
from keras_transformer.data.corpora.documents import BlankLineDocuments, LineDocuments
from keras_transformer.data.corpora.file_corpus import FileCorpus, TextFileCorpus, find_files
from keras_transformer.data.corpora.formats import (
    FORMATS,
    find_columns,
    guess_format,
    open_corpus,
    register_format,
)
from keras_transformer.data.corpora.json_lines import JsonLinesCorpus
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.tsv import TsvCorpus

import_members(__name__, __path__)

__all__ = [
    "FORMATS",
    "TOO_LONG",
    "BadRecordError",
    "BlankLineDocuments",
    "ConlluCorpus",
    "Corpus",
    "CorpusReport",
    "DependencyTree",
    "FileCorpus",
    "JsonLinesCorpus",
    "LabeledCorpus",
    "LengthSummary",
    "LineDocuments",
    "MemoryCorpus",
    "ParallelCorpus",
    "ReadingRules",
    "Tally",
    "TextFileCorpus",
    "TsvCorpus",
    "count_overlaps",
    "find_columns",
    "find_files",
    "guess_format",
    "open_corpus",
    "register_format",
]
