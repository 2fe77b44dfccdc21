"""Batches of pairs, for translation and everything like it."""

import numpy as np
import tensorflow as tf

from keras_transformer.data.batching.bucketed_batches import BucketedBatches
from keras_transformer.data.batching.sequences import decoder_inputs


class PairBatches(BucketedBatches):
    """Batches of a corpus with the columns `source` and `target`.

    A batch is `({"source": [B, S], "target": [B, T]}, labels [B, T])`, all `int32`: `source` is the
    ids and END, `target` START and the ids, `labels` the ids and END.

    Args: as in `BucketedBatches`.

    Example:

    >>> import tempfile
    >>> from keras_transformer.data import MemoryCorpus, choose_buckets, tokenise_corpus
    >>> from keras_transformer.text import ByteTokenizer
    >>> corpus = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> cache = tokenise_corpus(corpus, ByteTokenizer(), tempfile.mkdtemp())
    >>> batches = PairBatches(cache, choose_buckets(cache, max_buckets=1), seed=1)
    >>> inputs, labels = batches.batch(epoch=0, number=0)
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape
    ((2, 5), (2, 4), (2, 4))
    """

    columns = ("source", "target")

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return {"source": ids, "target": ids}, ids

    def batch(self, epoch, number):
        examples, (source, labels) = self._rows(epoch, number)
        target = decoder_inputs(labels, np.arange(len(examples)) * labels.shape[1])
        return {"source": source, "target": target}, labels
