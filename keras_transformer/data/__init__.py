"""Corpora, built-in corpora, the token cache, and batches.

Everything that needs TensorFlow is imported on first use (PEP 562).
"""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily
from keras_transformer.data import builtin, corpora
from keras_transformer.data.builtin import *  # noqa: F403
from keras_transformer.data.corpora import *  # noqa: F403

if TYPE_CHECKING:
    from keras_transformer.data.batching.batches import Batches, BatchReport, BucketReport
    from keras_transformer.data.batching.bucketed_batches import (
        BucketedBatches,
        DocumentBatches,
        LabeledBatches,
        PairBatches,
        TreeBatches,
        measure_headroom,
    )
    from keras_transformer.data.batching.buckets import Bucket, BucketTable, choose_buckets
    from keras_transformer.data.batching.packed_batches import PackedBatches
    from keras_transformer.data.token_cache import DamagedCacheError, TokenCache, TokenColumn
    from keras_transformer.data.tokenization import LabelIndex, tokenize_corpus

import_lazily(
    __name__,
    {
        "batching.batches": "BatchReport Batches BucketReport",
        "batching.bucketed_batches": "BucketedBatches DocumentBatches LabeledBatches PairBatches "
        "TreeBatches measure_headroom",
        "batching.buckets": "Bucket BucketTable choose_buckets",
        "batching.packed_batches": "PackedBatches",
        "token_cache": "DamagedCacheError TokenCache TokenColumn",
        "tokenization": "LabelIndex tokenize_corpus",
    },
)

__all__ = [
    "BatchReport",
    "Batches",
    "Bucket",
    "BucketReport",
    "BucketTable",
    "BucketedBatches",
    "DamagedCacheError",
    "DocumentBatches",
    "LabelIndex",
    "LabeledBatches",
    "PackedBatches",
    "PairBatches",
    "TokenCache",
    "TokenColumn",
    "TreeBatches",
    "choose_buckets",
    "measure_headroom",
    "tokenize_corpus",
]
__all__ += builtin.__all__
__all__ += corpora.__all__
