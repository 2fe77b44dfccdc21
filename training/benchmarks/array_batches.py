"""Batches that are held in memory."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.data import Batches
from training.benchmarks.workload import PADDING, Batch


class ArrayBatches(Batches):
    """The given batches, in their order, in every epoch.

    Args:
        batches: tuples of source, target and labels, int32 arrays.

    >>> import numpy as np
    >>> ids = np.ones([2, 3], np.int32)
    >>> inputs, labels = next(iter(ArrayBatches([(ids, ids, ids)]).dataset(epochs=1)))
    >>> sorted(inputs), labels.shape
    (['source', 'target'], TensorShape([2, 3]))
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        # Without `super().__init__`, which wants the cache of a corpus.
        self.seed = 0
        self._batches = [
            ({"source": source, "target": target}, labels) for source, target, labels in batches
        ]

    @property
    def element_spec(self) -> Any:
        ids = tf.TensorSpec([None, None], tf.int32)
        return {"source": ids, "target": ids}, ids

    @property
    def padding_values(self) -> Any:
        return {"source": PADDING, "target": PADDING}, PADDING

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, epoch: int, number: int) -> Any:
        return self._batches[number]

    def report(self) -> Any:
        raise NotImplementedError("Given batches have no report, because none was left out.")

    def settings(self) -> dict[str, Any]:
        return {}

    def _make_plan(self, epoch: int) -> range:
        return range(len(self))
