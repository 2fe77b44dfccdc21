"""Rows of padded ids from the ragged ids of a column."""

import numpy as np

from keras_transformer.data.batching.ranges import concatenated_ranges
from keras_transformer.text.special_ids import END_ID, PADDING_ID, START_ID


class SampledColumn:
    """Ids that were made for one batch, with the interface of a `TokenColumn`.

    Args:
        ragged: a `tf.RaggedTensor` of ids `[examples, None]`.
    """

    def __init__(self, ragged):
        self._ids = ragged.values.numpy()
        self._offsets = ragged.row_splits.numpy()

    def spans(self, examples):
        begins = self._offsets[examples]
        return begins, self._offsets[examples + 1] - begins

    def gather(self, begins, counts):
        return self._ids[concatenated_ranges(begins, counts)]


def write_sequences(column, examples, firsts, counts, places, matrix):
    """Writes parts of sequences into a matrix; a sequence is the ids of an example and END.

    Args:
        column: a `TokenColumn` or `SampledColumn`.
        examples: the example of each part, `int64 [parts]` like the following.
        firsts: the first token of each part in its sequence.
        counts: how many tokens each part has.
        places: where each part goes, counted along the matrix' rows.
        matrix: `int32 [rows, width]`, written to.
    """
    begins, lengths = column.spans(examples)
    has_end = firsts + counts > lengths
    id_counts = counts - has_end
    flat = matrix.reshape(-1)
    flat[concatenated_ranges(places, id_counts)] = column.gather(begins + firsts, id_counts)
    flat[(places + id_counts)[has_end]] = END_ID


def decoder_inputs(labels, places):
    """Returns what a decoder reads to predict `labels`: START, then each label one step later.

    Args:
        labels: `int32 [rows, width]`, padded with 0.
        places: where sequences begin, counted along the matrix' rows.

    Example:

    >>> decoder_inputs(np.array([[7, 8, 3, 9, 3, 0]]), np.array([0, 3]))
    array([[2, 7, 8, 2, 9, 0]])
    """
    inputs = np.zeros_like(labels)
    inputs[:, 1:] = labels[:, :-1]
    inputs.reshape(-1)[places] = START_ID
    inputs[labels == PADDING_ID] = PADDING_ID
    return inputs
