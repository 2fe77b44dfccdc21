"""Batches of documents, one a row, for language models."""

import numpy as np
import tensorflow as tf

from keras_transformer.data.batching.bucketed_batches import BucketedBatches
from keras_transformer.data.batching.sequences import decoder_inputs


class DocumentBatches(BucketedBatches):
    """Batches of a corpus with the one column `text`. `PackedBatches` waste less on short ones.

    A batch is `({"target": [B, T]}, labels [B, T])`, both `int32`: `target` is START and the ids,
    `labels` the ids and END.

    Args: as in `BucketedBatches`.
    """

    columns = ("text",)

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return {"target": ids}, ids

    def batch(self, epoch, number):
        examples, (labels,) = self._rows(epoch, number)
        target = decoder_inputs(labels, np.arange(len(examples)) * labels.shape[1])
        return {"target": target}, labels
