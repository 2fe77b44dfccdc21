"""Labels as numbers."""

import hashlib
import json

import tensorflow as tf

from keras_transformer.errors import UserError
from keras_transformer.text.special_ids import FIRST_PIECE_ID


class LabelIndex:
    """The tokenizer of a column of labels: one id a label, in the order of `labels`.

    Ids begin where those of pieces do, so that class n has the id n + 4; `LabelledBatches` give n.

    Args:
        labels: the labels, such as `LabelledCorpus.labels` of the training corpus.

    Example:

    >>> LabelIndex(["bad", "good"]).tokenize(["good", "bad"]).to_list()
    [[5], [4]]
    """

    def __init__(self, labels):
        self.labels = tuple(labels)
        self._ids = {label: FIRST_PIECE_ID + n for n, label in enumerate(self.labels)}
        if len(self._ids) != len(self.labels):
            raise ValueError(f"`labels` must differ from each other; got {self.labels}.")

    @property
    def vocabulary_size(self):
        return FIRST_PIECE_ID + len(self.labels)

    @property
    def hash(self):
        return hashlib.sha256(json.dumps(["labels", *self.labels]).encode()).hexdigest()

    def tokenize(self, strings):
        """Returns the id of each label as a `tf.RaggedTensor` [B, 1]."""
        labels = [label.decode() for label in tf.convert_to_tensor(strings).numpy()]
        for label in labels:
            if label not in self._ids:
                known = ", ".join(map(repr, self.labels[:20]))
                raise UserError(
                    f"Unknown label {label!r}; known are {known}. Put it right, or add it to the "
                    "training corpus."
                )
        ids = tf.constant([self._ids[label] for label in labels], tf.int32)
        return tf.RaggedTensor.from_uniform_row_length(ids, 1)
