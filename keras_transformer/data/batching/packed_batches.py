"""Batches of documents, several per row, for language models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer._utils import checks
from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import (
    IDS,
    Batches,
    BatchReport,
    BucketReport,
    Plan,
    shuffled,
)
from keras_transformer.data.batching.bucketed_batches import decoder_inputs, write_sequences
from keras_transformer.data.batching.buckets import Bucket
from keras_transformer.data.token_cache import TokenCache, concatenated_ranges


def pack(counts: Sequence[int] | np.ndarray, row_length: int) -> list[tuple[tuple[int, ...], int]]:
    """Returns which lengths share a row, and the number of such rows, so that there are few rows.

    There are `counts[n]` pieces with n tokens; `row_length` tokens fit into a row. The algorithm is
    best fit, longest pieces first, but on the histogram of lengths instead of the pieces, so that
    the time hardly depends on the corpus. Krell et al. 2021, "Efficient sequence packing without
    cross-contamination", section 3.1.

    >>> pack([0, 4, 1, 2, 0], row_length=4)
    [((3, 1), 2), ((2, 1, 1), 1)]
    """
    # open_rows[n]: rows with n free tokens, as (lengths, number of such rows).
    open_rows: list[list[tuple[tuple[int, ...], int]]] = [[] for _ in range(row_length + 1)]
    for length in range(row_length, 0, -1):
        left = int(counts[length])
        while left:
            free = next((n for n in range(length, row_length) if open_rows[n]), row_length)
            lengths, rows = open_rows[free].pop() if free < row_length else ((), left)
            each = free // length
            full = min(rows, left // each)
            if full:
                open_rows[free - each * length].append((lengths + (length,) * each, full))
                rows -= full
                left -= full * each
            if rows and left:  # not enough for one more full row
                open_rows[free - left * length].append((lengths + (length,) * left, 1))
                rows -= 1
                left = 0
            if rows and lengths:
                open_rows[free].append((lengths, rows))
    return sorted((entry for entries in open_rows for entry in entries), reverse=True)


class PackedBatches(Batches):
    """Batches of a corpus with the column `text`, whose rows contain several documents each.

    A batch is `({"target": [B, T], "segments": [B, T]}, labels [B, T])`, all `int32`. Each document
    is the start id and its ids in `target`, its ids and the end id in `labels`, and has a number in
    `segments`, from 1 in each row. Attention must stay within a segment, as in a `LanguageModel`
    with `is_packed`.

    A document that is longer than a row is cut into pieces as long as a row and a rest. Each piece
    is treated like a document and starts with the start id, but only the last one has an end id.
    Each token of the corpus is a label exactly once per epoch.

    The lengths that share a row are chosen once (see `pack`). In each epoch, pieces of equal length
    are exchanged at random, and the order of the pieces in each row and of the rows is random.

    Args:
        cache: A `TokenCache` with the column `text`.
        row_length: Number of tokens in a row, T.
        tokens: Maximum number of tokens per batch, padding included.
        seed: Seed of the order, from 0 to 2**64 - 1.
    """

    columns: tuple[str, ...] = ("text",)
    element_spec: Any = {"target": IDS, "segments": IDS}, IDS

    def __init__(
        self, cache: TokenCache, *, row_length: int = 512, tokens: int = 4096, seed: int
    ) -> None:
        super().__init__(cache, seed)
        self.row_length: int = checks.require_integer("row_length", row_length, minimum=2)
        self.tokens: int = checks.require_positive_integer("tokens", tokens)
        if tokens < row_length:
            problem = f"a batch of {tokens} tokens cannot contain a row of row_length={row_length}."
            fix = "Set it to a multiple of the row length."
            raise UserError(problem, argument="tokens", related=("row_length",), fix=fix)
        self._cut_into_pieces()
        self._fill_rows()
        self.bucket: Bucket = Bucket(min(tokens // row_length, len(self._row_sizes)), (row_length,))

    def __len__(self) -> int:
        return -(-len(self._row_sizes) // self.bucket.rows)

    @property
    def padding_values(self) -> Any:
        return {"target": self.special_ids.padding, "segments": 0}, self.special_ids.padding

    def settings(self) -> dict[str, Any]:
        return {"row_length": self.row_length, "tokens": self.tokens}

    def report(self) -> BatchReport:
        tokens = int(self._counts.sum(dtype=np.int64))
        return BatchReport((BucketReport(self.bucket, len(self), len(self.cache), tokens),))

    def batch(self, epoch: int, number: int) -> Any:
        pieces, sizes = self.plan(epoch)[number]
        counts = self._counts[pieces].astype(np.int64)
        row_firsts = np.cumsum(sizes) - sizes  # index of the first piece of each row
        begins = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(len(sizes)), sizes)
        positions = rows * self.row_length + begins - np.repeat(begins[row_firsts], sizes)
        numbers = np.arange(len(pieces)) - np.repeat(row_firsts, sizes) + 1
        labels = np.full((self.bucket.rows, self.row_length), self.special_ids.padding, np.int32)
        write_sequences(
            self.cache.columns["text"],
            self._documents[pieces],
            self._firsts[pieces],
            counts,
            positions,
            labels,
            self.special_ids.end,
        )
        segments = np.zeros_like(labels)
        segments.reshape(-1)[concatenated_ranges(positions, counts)] = np.repeat(numbers, counts)
        target = decoder_inputs(labels, positions, self.special_ids)
        return {"target": target, "segments": segments}, labels

    def _cut_into_pieces(self) -> None:
        """Sets the document of each piece, its first token there, and its number of tokens."""
        lengths = np.concatenate([lengths[:, 0] + 1 for lengths in self.cache.iterate_lengths()])
        pieces = -(-lengths // self.row_length)
        self._documents = np.repeat(np.arange(len(lengths)), pieces)
        self._firsts = concatenated_ranges(np.zeros_like(pieces), pieces) * self.row_length
        counts = np.minimum(lengths[self._documents] - self._firsts, self.row_length)
        self._counts = counts.astype(np.int32)

    def _fill_rows(self) -> None:
        """Sets the number of pieces of each row, and the order of their positions by length."""
        patterns = pack(np.bincount(self._counts, minlength=self.row_length + 1), self.row_length)
        sizes = [np.full(rows, len(lengths), np.int32) for lengths, rows in patterns]
        self._row_sizes = np.concatenate(sizes)
        places = [np.tile(np.array(lengths, np.int32), rows) for lengths, rows in patterns]
        self._places_by_length = np.argsort(np.concatenate(places), kind="stable")

    def _make_plan(self, epoch: int) -> Plan:
        """Returns a plan whose batch is its pieces, row by row, and the number of them in each."""
        # Sorting by length is stable: pieces of equal length stay in random order.
        pieces = shuffled(len(self._counts), self.seed, "pieces", epoch)
        pieces = pieces[np.argsort(self._counts[pieces], kind="stable")]
        placed = np.empty_like(pieces)
        placed[self._places_by_length] = pieces
        # The pieces within each row are shuffled in the same way.
        order = shuffled(len(placed), self.seed, "places", epoch)
        row_of_place = np.repeat(np.arange(len(self._row_sizes), dtype=np.int32), self._row_sizes)
        placed = placed[order[np.argsort(row_of_place[order], kind="stable")]]
        rows = shuffled(len(self._row_sizes), self.seed, "rows", epoch)
        row_begins = np.cumsum(self._row_sizes, dtype=np.int64) - self._row_sizes

        def describe(number: int) -> tuple[np.ndarray, np.ndarray]:
            chosen = rows[number * self.bucket.rows : (number + 1) * self.bucket.rows]
            sizes = self._row_sizes[chosen]
            return placed[concatenated_ranges(row_begins[chosen], sizes)], sizes

        return Plan(len(self), describe)
