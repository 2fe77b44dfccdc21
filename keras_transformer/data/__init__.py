"""Corpora on disk and how they become batches; the built-in corpora."""

from keras_transformer.data.batching.batches import Batches, BatchReport, BucketReport
from keras_transformer.data.batching.bucketed_batches import room_for_samples
from keras_transformer.data.batching.buckets import Bucket, BucketTable, choose_buckets
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.batching.task_batches import (
    DocumentBatches,
    LabeledBatches,
    PairBatches,
    TreeBatches,
)
from keras_transformer.data.corpora.conllu import ConlluCorpus, DependencyTree
from keras_transformer.data.corpora.corpus import Corpus, ReadingRules
from keras_transformer.data.corpora.corpus_report import CorpusReport, LengthSummary, count_overlap
from keras_transformer.data.corpora.documents import BlankLineDocuments, LineDocuments
from keras_transformer.data.corpora.json_lines import JsonLinesCorpus
from keras_transformer.data.corpora.labeled import LabeledCorpus
from keras_transformer.data.corpora.memory import MemoryCorpus
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.tsv import TsvCorpus
from keras_transformer.data.dates import DatesCorpus, make_dates
from keras_transformer.data.recall import RecallCorpus, make_recall
from keras_transformer.data.token_cache import (
    DamagedCacheError,
    LabelIndex,
    TokenCache,
    TokenColumn,
)
from keras_transformer.data.tokenization import tokenize_corpus

__all__ = [
    "BatchReport",
    "Batches",
    "BlankLineDocuments",
    "Bucket",
    "BucketReport",
    "BucketTable",
    "ConlluCorpus",
    "Corpus",
    "CorpusReport",
    "DamagedCacheError",
    "DatesCorpus",
    "DependencyTree",
    "DocumentBatches",
    "JsonLinesCorpus",
    "LabelIndex",
    "LabeledBatches",
    "LabeledCorpus",
    "LengthSummary",
    "LineDocuments",
    "MemoryCorpus",
    "PackedBatches",
    "PairBatches",
    "ParallelCorpus",
    "ReadingRules",
    "RecallCorpus",
    "TokenCache",
    "TokenColumn",
    "TreeBatches",
    "TsvCorpus",
    "choose_buckets",
    "count_overlap",
    "make_dates",
    "make_recall",
    "room_for_samples",
    "tokenize_corpus",
]
