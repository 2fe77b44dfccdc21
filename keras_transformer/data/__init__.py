"""Corpora on disk and how they become batches; the built-in quick-start corpus."""

from keras_transformer.data.batch_report import BatchReport, BucketReport
from keras_transformer.data.batches import Batches
from keras_transformer.data.bucket_choice import choose_buckets
from keras_transformer.data.buckets import Bucket, BucketTable
from keras_transformer.data.cache import DamagedCacheError, TokenCache, TokenColumn
from keras_transformer.data.corpus import Corpus
from keras_transformer.data.corpus_report import CorpusReport, LengthSummary
from keras_transformer.data.dates import DatesCorpus, make_dates
from keras_transformer.data.document_batches import DocumentBatches
from keras_transformer.data.documents import BlankLineDocuments, LineDocuments
from keras_transformer.data.json_lines import JsonLinesCorpus
from keras_transformer.data.label_index import LabelIndex
from keras_transformer.data.labelled import LabelledCorpus
from keras_transformer.data.labelled_batches import LabelledBatches
from keras_transformer.data.memory import MemoryCorpus
from keras_transformer.data.overlap import count_overlap
from keras_transformer.data.packed_batches import PackedBatches
from keras_transformer.data.pair_batches import PairBatches
from keras_transformer.data.parallel import ParallelCorpus
from keras_transformer.data.reading_rules import ReadingRules
from keras_transformer.data.tokenising import tokenise_corpus
from keras_transformer.data.tsv import TsvCorpus

__all__ = [
    "BatchReport",
    "Batches",
    "BlankLineDocuments",
    "Bucket",
    "BucketReport",
    "BucketTable",
    "Corpus",
    "CorpusReport",
    "DamagedCacheError",
    "DatesCorpus",
    "DocumentBatches",
    "JsonLinesCorpus",
    "LabelIndex",
    "LabelledBatches",
    "LabelledCorpus",
    "LengthSummary",
    "LineDocuments",
    "MemoryCorpus",
    "PackedBatches",
    "PairBatches",
    "ParallelCorpus",
    "ReadingRules",
    "TokenCache",
    "TokenColumn",
    "TsvCorpus",
    "choose_buckets",
    "count_overlap",
    "make_dates",
    "tokenise_corpus",
]
