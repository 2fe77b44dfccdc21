'''Corpora: examples from files or memory, streamed, checked and counted. Imports no TensorFlow.

A file format is one file in this folder, which is found automatically: a `FileCorpus` (or a
`TextFileCorpus`, if the files consist of lines) that registers a name. `open_corpus`, recipes and
`keras-transformer data` then know it, by its name and by the extensions of its files:

    @register_format("parquet")
    class ParquetCorpus(FileCorpus):
        """Pairs in the columns `source` and `target` of Parquet files."""

        title = "Parquet files"
        extensions = (".parquet",)
        columns = ("source", "target")

        def probe(self, path):
            super().probe(path)
            try:
                import pyarrow.parquet  # not at the top: every process imports the formats
            except ImportError:
                raise UserError("Parquet needs pyarrow.", fix="pip install pyarrow") from None

        def records(self, tally):
            from pyarrow.parquet import ParquetFile

            for path in self.files:
                self.verify(path)
                tally.path, tally.line_number = path, 0
                for rows in ParquetFile(path).iter_batches(columns=list(self.columns)):
                    for record in zip(*(rows.column(name).to_pylist() for name in self.columns)):
                        tally.line_number += 1
                        if None in record:
                            record = tally.bad_record("a value is missing.", "Remove the row.")
                        yield record
                self.verify(path)

Options of a format are arguments of its constructor, described in `options`.
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
