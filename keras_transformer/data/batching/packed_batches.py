"""Batches of documents, several in a row, for language models."""

import numpy as np
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import (
    Batches,
    BatchReport,
    BucketReport,
    concatenated_ranges,
    shuffled,
)
from keras_transformer.data.batching.bucketed_batches import decoder_inputs, write_sequences
from keras_transformer.data.batching.buckets import Bucket


def pack(counts, width):
    """Returns which lengths share a row, so that all pieces fit into few rows.

    Best fit, longest pieces first, but on the histogram of lengths instead of on the pieces, so
    that the time depends on the width and hardly on the corpus. Krell et al. 2021, "Efficient
    sequence packing without cross-contamination", section 3.1.

    Args:
        counts: `counts[n]` is how many pieces have n tokens, for n up to `width`; none have 0.
        width: how many tokens fit into a row.

    Returns:
        A list of `(lengths, rows)`: so many rows hold pieces of these lengths, a tuple.

    Example:

    >>> pack([0, 4, 1, 2, 0], width=4)
    [((3, 1), 2), ((2, 1, 1), 1)]
    """
    # open_rows[n]: rows with room for n more tokens, as (lengths, how many rows there are).
    open_rows = [[] for _ in range(width + 1)]
    for length in range(width, 0, -1):
        left = int(counts[length])
        while left:
            room = next((n for n in range(length, width) if open_rows[n]), width)
            lengths, rows = open_rows[room].pop() if room < width else ((), left)
            each = room // length
            full = min(rows, left // each)
            if full:
                open_rows[room - each * length].append((lengths + (length,) * each, full))
                rows -= full
                left -= full * each
            if rows and left:  # not enough for one more full row
                open_rows[room - left * length].append((lengths + (length,) * left, 1))
                rows -= 1
                left = 0
            if rows and lengths:
                open_rows[room].append((lengths, rows))
    return sorted((entry for entries in open_rows for entry in entries), reverse=True)


class PackedBatches(Batches):
    """Batches of a corpus with the one column `text`, whose rows are filled with several documents.

    A batch is `({"target": [B, T], "segments": [B, T]}, labels [B, T])`, all `int32`. Each document
    is START and its ids in `target`, its ids and END in `labels`, and has a number in `segments`,
    from 1 on in each row. Attention has to stay within a segment: `LanguageModel` with `is_packed`
    sees to that.

    A document that is longer than a row is cut into pieces as long as a row and a rest. A piece is
    treated like a document: it starts with START, as nothing before it can be seen. But only the
    last has an END. So each token of the corpus is a label exactly once in an epoch.

    Which lengths share a row is decided once (see `pack`). In each epoch the pieces of equal length
    change places, the pieces in a row change their order, and so do the rows.

    Args:
        cache: the `TokenCache`.
        width: the tokens in a row, T.
        tokens: the budget of a batch: rows times `width` are never more.
        seed: of the order, from 0 to 2**64 - 1.
    """

    columns = ("text",)

    def __init__(self, cache, *, width=512, tokens=4096, seed):
        super().__init__(cache, seed)
        self.width = checks.require_integer("width", width, minimum=2)
        self.tokens = checks.require_positive_integer("tokens", tokens)
        if tuple(cache.columns) != self.columns:
            raise ValueError(
                f"PackedBatches need a cache with the columns {self.columns}; "
                f"got {tuple(cache.columns)}."
            )
        if tokens < width:
            raise UserError(
                f"A batch of tokens={tokens} cannot hold a row of width={width}. Set tokens to a "
                "multiple of width."
            )
        self._cut_into_pieces()
        self._fill_rows()
        self.bucket = Bucket(min(tokens // width, len(self._row_sizes)), (width,))

    def __len__(self):
        return -(-len(self._row_sizes) // self.bucket.rows)

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return {"target": ids, "segments": ids}, ids

    def settings(self):
        return {"width": self.width, "tokens": self.tokens}

    def report(self):
        tokens = int(self._counts.sum(dtype=np.int64))
        return BatchReport((BucketReport(self.bucket, len(self), len(self.cache), tokens),))

    def batch(self, epoch, number):
        pieces, sizes = self.plan(epoch)[number]
        counts = self._counts[pieces].astype(np.int64)
        row_firsts = np.cumsum(sizes) - sizes  # the first piece of each row
        begins = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(len(sizes)), sizes)
        places = rows * self.width + begins - np.repeat(begins[row_firsts], sizes)
        numbers = np.arange(len(pieces)) - np.repeat(row_firsts, sizes) + 1
        labels = np.zeros((self.bucket.rows, self.width), np.int32)
        write_sequences(
            self.cache.columns["text"],
            self._documents[pieces],
            self._firsts[pieces],
            counts,
            places,
            labels,
        )
        segments = np.zeros_like(labels)
        segments.reshape(-1)[concatenated_ranges(places, counts)] = np.repeat(numbers, counts)
        return {"target": decoder_inputs(labels, places), "segments": segments}, labels

    def _cut_into_pieces(self):
        """Sets the document of each piece, its first token there, and how many it has."""
        widths = np.concatenate([lengths[:, 0] + 1 for lengths in self.cache.iterate_lengths()])
        pieces = -(-widths // self.width)
        self._documents = np.repeat(np.arange(len(widths)), pieces)
        self._firsts = concatenated_ranges(np.zeros_like(pieces), pieces) * self.width
        counts = np.minimum(widths[self._documents] - self._firsts, self.width)
        self._counts = counts.astype(np.int32)

    def _fill_rows(self):
        """Sets how many pieces each row has, and the order that sorts their places by length."""
        patterns = pack(np.bincount(self._counts, minlength=self.width + 1), self.width)
        self._row_sizes = np.concatenate(
            [np.full(rows, len(lengths), np.int32) for lengths, rows in patterns]
        )
        place_lengths = np.concatenate(
            [np.tile(np.array(lengths, np.int32), rows) for lengths, rows in patterns]
        )
        self._places_by_length = np.argsort(place_lengths, kind="stable")

    def _make_plan(self, epoch):
        # Sorting by length is stable: pieces of equal length stay in random order.
        pieces = shuffled(len(self._counts), self.seed, "pieces", epoch)
        pieces = pieces[np.argsort(self._counts[pieces], kind="stable")]
        placed = np.empty_like(pieces)
        placed[self._places_by_length] = pieces
        # In the same way, the pieces within each row.
        order = shuffled(len(placed), self.seed, "places", epoch)
        row_of_place = np.repeat(np.arange(len(self._row_sizes), dtype=np.int32), self._row_sizes)
        placed = placed[order[np.argsort(row_of_place[order], kind="stable")]]
        rows = shuffled(len(self._row_sizes), self.seed, "rows", epoch)
        return PackedPlan(placed, self._row_sizes, rows, self.bucket.rows)


class PackedPlan:
    """The batches of one epoch: `plan[n]` is the pieces of batch n, and how many each row has.

    Args:
        pieces: the pieces, row by row.
        row_sizes: how many pieces each row has.
        order: the order of the rows.
        batch_rows: the number of rows in a batch.
    """

    def __init__(self, pieces, row_sizes, order, batch_rows):
        self._pieces = pieces
        self._row_sizes = row_sizes
        self._row_begins = np.cumsum(row_sizes, dtype=np.int64) - row_sizes
        self._order = order
        self._batch_rows = batch_rows

    def __len__(self):
        return -(-len(self._order) // self._batch_rows)

    def __getitem__(self, number):
        if not 0 <= number < len(self):
            raise IndexError(f"A batch from 0 to {len(self) - 1} was expected; got {number}.")
        rows = self._order[number * self._batch_rows : (number + 1) * self._batch_rows]
        sizes = self._row_sizes[rows]
        return self._pieces[concatenated_ranges(self._row_begins[rows], sizes)], sizes
