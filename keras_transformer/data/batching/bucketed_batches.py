"""Base of the batches with one example per row, in the shapes of a bucket table."""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._utils import checks
from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import (
    Batches,
    BatchReport,
    BucketReport,
    Plan,
    shuffled,
)
from keras_transformer.data.batching.buckets import BucketTable
from keras_transformer.data.token_cache import (
    TokenCache,
    TokenColumn,
    concatenated_ranges,
    require_token_ids,
)
from keras_transformer.text import SpecialIds

#: A function of strings `[B]` and a seed that returns a `tf.RaggedTensor` of ids `[B, None]`.
Sampler: TypeAlias = Callable[..., tf.RaggedTensor]


class SampledColumn:
    """Ids `[examples, None]` that were made for a batch, with the interface of a `TokenColumn`."""

    def __init__(self, ragged: tf.RaggedTensor) -> None:
        self._ids = ragged.values.numpy()
        self._offsets = ragged.row_splits.numpy()

    def spans(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns where each example's ids begin, and their numbers."""
        begins = self._offsets[examples]
        return begins, self._offsets[examples + 1] - begins

    def gather(self, begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Returns `counts[i]` ids from index `begins[i]`, for all i, one after the other."""
        return self._ids[concatenated_ranges(begins, counts)]


def write_sequences(
    column: TokenColumn | SampledColumn,
    examples: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
    positions: np.ndarray,
    matrix: np.ndarray,
    end_id: int,
) -> None:
    """Writes parts of sequences into a matrix; a sequence is the ids of an example and the end id.

    Part i has the `counts[i]` tokens from index `firsts[i]` of the sequence of `examples[i]`, and
    is written to index `positions[i]` of the flattened matrix.
    """
    begins, lengths = column.spans(examples)
    has_end = firsts + counts > lengths
    id_counts = counts - has_end
    flat = matrix.reshape(-1)
    flat[concatenated_ranges(positions, id_counts)] = column.gather(begins + firsts, id_counts)
    flat[(positions + id_counts)[has_end]] = end_id


def decoder_inputs(
    labels: np.ndarray, positions: np.ndarray, special_ids: SpecialIds
) -> np.ndarray:
    """Returns the inputs of a decoder that predicts `labels`: start, then the labels but the last.

    `positions` are the indices in the flattened matrix at which the sequences begin.

    >>> decoder_inputs(np.array([[7, 8, 3, 9, 3, 0]]), np.array([0, 3]), SpecialIds())
    array([[2, 7, 8, 2, 9, 0]])
    """
    inputs = np.full_like(labels, special_ids.padding)
    inputs[:, 1:] = labels[:, :-1]
    inputs.reshape(-1)[positions] = special_ids.start
    inputs[labels == special_ids.padding] = special_ids.padding
    return inputs


# Number of examples, evenly spread over the corpus: enough to estimate a quantile to a few percent.
_EXAMPLES = 1000
# Share of samples that must fit: headroom for the longest would be padding in all other rows.
_FITTING = 0.9


def measure_headroom(cache: TokenCache, samplers: Mapping[str, Sampler]) -> tuple[float, ...]:
    """Returns the `headroom` of each column with which nine in ten samples fit.

    The same cache and samplers give the same headroom.

    Args:
        cache: A `TokenCache` with its text.
        samplers: A mapping from columns to samplers, as in `BucketedBatches`. Other columns get 1.
    """
    examples = np.unique(np.linspace(0, len(cache) - 1, _EXAMPLES).astype(np.int64))

    def measure(name: str, column: TokenColumn) -> float:
        if name not in samplers:
            return 1.0
        _, usual = column.spans(examples)
        sampled = samplers[name](tf.constant(column.texts(examples)), seed=0).row_lengths().numpy()
        return max(1.0, float(np.quantile(sampled / np.maximum(usual, 1), _FITTING)))

    return tuple(measure(name, column) for name, column in cache.sequence_columns.items())


class BucketedBatches(Batches):
    """Base of the batches with one example per row; subclasses combine the columns.

    In each epoch the examples of every bucket are shuffled and cut into batches, and all batches
    are shuffled. Left-over examples of a bucket move to the next larger one, unless a batch that is
    filled up with padding costs less.

    Args:
        cache: A `TokenCache` with the columns that the subclass names in `columns`.
        table: A `BucketTable`, for example `choose_buckets(cache)`.
        seed: Integer from 0 to 2**64 - 1. Seed of the order.
        samplers: A mapping from columns to functions that segment texts anew for each batch, for
            subword regularization (Kudo 2018). A function takes strings `[B]` and a seed, like a
            tokenizer's `sample`. Samplers need a cache with its text, and a table with `headroom`
            (see `measure_headroom`); a sample that is too long for its row is not used. The
            fingerprint contains the columns with a sampler, not what the sampler does.

    Raises:
        UserError: If the table leaves no example.
    """

    def __init__(
        self,
        cache: TokenCache,
        table: BucketTable,
        *,
        seed: int,
        samplers: Mapping[str, Sampler] | None = None,
    ) -> None:
        super().__init__(cache, seed)
        if len(table[-1].lengths) != len(cache.sequence_columns):
            columns = list(cache.sequence_columns)
            got = table[-1].lengths
            raise UserError(f"`table` must have a length for each of {columns}; got {got}.")
        self.table: BucketTable = table
        self._samplers = dict(samplers or {})
        for name in self._samplers:
            checks.require_choice("samplers", name, cache.sequence_columns)
            # A cache without its text raises here, not in the middle of the training.
            cache.sequence_columns[name].texts(np.zeros(1, np.int64))
        self._members, self._truncated = self._assign()
        self._layout = self._make_layout()

    def __len__(self) -> int:
        return sum(batches for batches, _ in self._layout)

    def settings(self) -> dict[str, Any]:
        return {"table": self.table.get_config(), "samplers": sorted(self._samplers)}

    def report(self) -> BatchReport:
        pools = self.plan(0).pools
        columns = self.cache.sequence_columns.values()
        reports = []
        for bucket, (batches, _), examples in zip(self.table, self._layout, pools, strict=True):
            tokens = sum(
                int(np.minimum(column.spans(examples)[1] + 1, length).sum())
                for column, length in zip(columns, bucket.lengths, strict=True)
            )
            reports.append(BucketReport(bucket, batches, len(examples), tokens))
        skipped = len(self.cache) - sum(report.examples for report in reports)
        return BatchReport(tuple(reports), skipped=skipped, truncated=self._truncated)

    def _make_rows(self, epoch: int, number: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Returns the examples of a batch, and a padded matrix `[rows, length]` of each column."""
        index, examples = self.plan(epoch)[number]
        bucket = self.table[index]
        matrices = []
        rows = np.arange(len(examples))
        columns = self.cache.sequence_columns.items()
        for (name, column), length in zip(columns, bucket.lengths, strict=True):
            matrix = np.full((bucket.rows, length), self.special_ids.padding, np.int32)
            self._write_rows(column, examples, rows, matrix)
            if name in self._samplers:
                key = json.dumps([self.seed, "sample", epoch, number, name]).encode()
                seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "little") >> 1
                ragged = self._samplers[name](tf.constant(column.texts(examples)), seed)
                require_token_ids(
                    f"The sampler of column {name!r}",
                    ragged.values.numpy(),
                    column.vocabulary_size,
                    self.special_ids,
                    fix="Give a sampler of the tokenizer of the cache.",
                )
                sampled = SampledColumn(ragged)
                fitting = rows[sampled.spans(rows)[1] < length]
                matrix[fitting] = self.special_ids.padding
                self._write_rows(sampled, fitting, fitting, matrix)
            matrices.append(matrix)
        return examples, matrices

    def _write_rows(
        self,
        column: TokenColumn | SampledColumn,
        examples: np.ndarray,
        rows: np.ndarray,
        matrix: np.ndarray,
    ) -> None:
        """Writes one sequence per row, cut to the length of the matrix."""
        length = matrix.shape[1]
        counts = np.minimum(column.spans(examples)[1] + 1, length)
        firsts, end_id = np.zeros_like(examples), self.special_ids.end
        write_sequences(column, examples, firsts, counts, rows * length, matrix, end_id)

    def _decoder_inputs(self, labels: np.ndarray, examples: np.ndarray) -> np.ndarray:
        """Returns the decoder's inputs for labels of which each row is one example."""
        positions = np.arange(len(examples)) * labels.shape[1]
        return decoder_inputs(labels, positions, self.special_ids)

    def _assign(self) -> tuple[list[np.ndarray], int]:
        """Returns the examples of each bucket, and the number of truncated examples."""
        chunks, truncated = [], 0
        for lengths in self.cache.iterate_lengths():
            chunks.append(self.table.assign(lengths).astype(np.int16))
            is_cut = (lengths + 1 > np.array(self.table[-1].lengths)).any(axis=1)
            truncated += int(np.count_nonzero(is_cut & (chunks[-1] >= 0)))
        assigned = np.concatenate(chunks)
        order = np.argsort(assigned, kind="stable")
        ends = np.searchsorted(assigned[order], np.arange(-1, len(self.table)), side="right")
        members = [order[first:last] for first, last in itertools.pairwise(ends)]
        if not any(map(len, members)):
            raise UserError(
                f"All {len(self.cache)} examples are longer than the last bucket's lengths "
                f"{self.table[-1].lengths}.",
                fix="Use a longer bucket, or too_long='truncate'.",
            )
        return members, truncated

    def _make_layout(self) -> list[tuple[int, int | None]]:
        """Returns for each bucket its number of batches, and the bucket of left-over examples."""
        layout = []
        counts = [len(members) for members in self._members]
        for index, bucket in enumerate(self.table):
            batches, left = divmod(counts[index], bucket.rows)
            larger = self.table.next_larger(index)
            if left and larger is not None and left * self.table[larger].row_slots < bucket.slots:
                counts[larger] += left
            else:
                larger = None
                batches += left > 0
            layout.append((batches, larger))
        return layout

    def _make_plan(self, epoch: int) -> Plan:
        """Returns a plan whose batch is the index of its bucket, and its examples."""
        arriving: list[list[np.ndarray]] = [[] for _ in self.table]
        pools = []
        for index, (batches, larger) in enumerate(self._layout):
            pool = np.concatenate([self._members[index], *arriving[index]])
            pool = pool[shuffled(len(pool), self.seed, "examples", epoch, index)]
            if larger is not None:
                last = batches * self.table[index].rows
                arriving[larger].append(pool[last:])
                pool = pool[:last]
            pools.append(pool)
        # The batches are numbered bucket by bucket, and shuffled.
        order = shuffled(len(self), self.seed, "batches", epoch)
        ends = np.cumsum([batches for batches, _ in self._layout])

        def describe(number: int) -> tuple[int, np.ndarray]:
            index = int(np.searchsorted(ends, order[number], side="right"))
            rows = self.table[index].rows
            last = (order[number] - ends[index] + self._layout[index][0] + 1) * rows
            return index, pools[index][last - rows : last]

        return Plan(len(self), describe, pools)
