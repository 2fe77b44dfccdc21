"""Batches of labelled texts, for classification."""

import numpy as np
import tensorflow as tf

from keras_transformer.data.batching.bucketed_batches import BucketedBatches
from keras_transformer.text.special_ids import FIRST_PIECE_ID


class LabelledBatches(BucketedBatches):
    """Batches of a corpus with the columns `text` and `label`.

    A batch is `({"source": [B, S]}, labels [B], weights [B])`: `source` is the ids and END,
    `labels` the numbers of the classes, `int32`, and `weights` 1.0 for texts and 0.0 for rows that
    only fill up the batch. `model.fit` and every Keras loss know what to do with the weights.

    Args: as in `BucketedBatches`. The tokenizer of the cache's column `label` is a `LabelIndex`.
    """

    columns = ("text", "label")

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return (
            {"source": ids},
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
        )

    def batch(self, epoch, number):
        examples, (source,) = self._rows(epoch, number)
        column = self.cache.columns["label"]
        labels = np.zeros(len(source), np.int32)
        labels[: len(examples)] = column.gather(*column.spans(examples)) - np.int32(FIRST_PIECE_ID)
        weights = np.zeros(len(source), np.float32)
        weights[: len(examples)] = 1
        return {"source": source}, labels, weights
