"""Corpora on disk and how they become batches; the built-in corpora."""

from keras_transformer.data.batching.batch_report import BatchReport, BucketReport
from keras_transformer.data.batching.batches import Batches
from keras_transformer.data.batching.bucket_choice import choose_buckets
from keras_transformer.data.batching.buckets import Bucket, BucketTable
from keras_transformer.data.batching.document_batches import DocumentBatches
from keras_transformer.data.batching.labelled_batches import LabelledBatches
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.batching.pair_batches import PairBatches
from keras_transformer.data.batching.sample_room import room_for_samples
from keras_transformer.data.batching.tree_batches import TreeBatches
from keras_transformer.data.corpora.conllu import ConlluCorpus
from keras_transformer.data.corpora.corpus import Corpus
from keras_transformer.data.corpora.corpus_report import CorpusReport, LengthSummary
from keras_transformer.data.corpora.dependency_tree import DependencyTree
from keras_transformer.data.corpora.documents import BlankLineDocuments, LineDocuments
from keras_transformer.data.corpora.json_lines import JsonLinesCorpus
from keras_transformer.data.corpora.labelled import LabelledCorpus
from keras_transformer.data.corpora.memory import MemoryCorpus
from keras_transformer.data.corpora.overlap import count_overlap
from keras_transformer.data.corpora.parallel import ParallelCorpus
from keras_transformer.data.corpora.reading_rules import ReadingRules
from keras_transformer.data.corpora.tsv import TsvCorpus
from keras_transformer.data.dates.dates import DatesCorpus, make_dates
from keras_transformer.data.recall.recall import RecallCorpus, make_recall
from keras_transformer.data.token_cache.cache import DamagedCacheError, TokenCache, TokenColumn
from keras_transformer.data.token_cache.label_index import LabelIndex
from keras_transformer.data.token_cache.tokenising import tokenise_corpus

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
    "LabelledBatches",
    "LabelledCorpus",
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
    "tokenise_corpus",
]
