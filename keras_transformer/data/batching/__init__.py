"""Batches of a token cache: bucketed or packed, one class for each task."""

from keras_transformer.data.batching.batches import Batches, BatchReport, BucketReport
from keras_transformer.data.batching.bucketed_batches import BucketedBatches, measure_headroom
from keras_transformer.data.batching.buckets import Bucket, BucketTable, choose_buckets
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.batching.task_batches import (
    DocumentBatches,
    LabeledBatches,
    PairBatches,
    TreeBatches,
)

__all__ = [
    "BatchReport",
    "Batches",
    "Bucket",
    "BucketReport",
    "BucketTable",
    "BucketedBatches",
    "DocumentBatches",
    "LabeledBatches",
    "PackedBatches",
    "PairBatches",
    "TreeBatches",
    "choose_buckets",
    "measure_headroom",
]
