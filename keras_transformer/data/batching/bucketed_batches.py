"""Batches with one example a row, in the shapes of a bucket table."""

import hashlib
import itertools
import json

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
from keras_transformer.text.tokenizer import END_ID, PADDING_ID, START_ID


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


# Of the corpus, evenly spread: enough to tell a quantile to a few percent.
_EXAMPLES = 1000

# The share of samples that must fit. Those that do not keep the ids of the cache, see
# `BucketedBatches`, and room for the longest of them would be padding in all other rows.
_FITTING = 0.9


def room_for_samples(cache, samplers):
    """Returns the `room` of each column, a tuple: that in which nine in ten samples fit.

    The same cache and samplers give the same room.

    Args:
        cache: the `TokenCache`, with its text.
        samplers: see `BucketedBatches`. A column without one needs no more than it has.
    """
    examples = np.unique(np.linspace(0, len(cache) - 1, _EXAMPLES).astype(np.int64))
    return tuple(
        _growth(column, samplers[name], examples) if name in samplers else 1.0
        for name, column in cache.sequence_columns.items()
    )


def _growth(column, sampler, examples):
    _, usual = column.spans(examples)
    sampled = sampler(tf.constant(column.texts(examples)), seed=0).row_lengths().numpy()
    return max(1.0, float(np.quantile(sampled / np.maximum(usual, 1), _FITTING)))


class BucketedBatches(Batches):
    """Base of the batches with one example a row; subclasses say what they make of the columns.

    In each epoch the examples of every bucket are shuffled and cut into batches, and all batches
    are shuffled. What is left over in a bucket goes up to the next larger one, unless a batch that
    is filled up with padding costs less.

    Args:
        cache: the `TokenCache`, with the columns that the subclass names in `columns`.
        table: the `BucketTable`, for example from `choose_buckets(cache)`.
        seed: of the order, from 0 to 2**64 - 1.
        samplers: functions that cut texts anew for each batch, for subword regularization (Kudo
            2018): a mapping from columns to functions of strings `[B]` and a seed, such as a
            tokenizer's `sample`. They need a cache with its text, and a table with some `room`, see
            `room_for_samples`; a row that a sample does not fit into keeps the ids of the cache.
            The fingerprint tells which columns have one, not what it does.

    Raises:
        UserError: if the table leaves no example.
    """

    columns = ()

    def __init__(self, cache, table, *, seed, samplers=None):
        super().__init__(cache, seed)
        if tuple(cache.columns) != self.columns:
            raise ValueError(
                f"{type(self).__name__} need a cache with the columns {self.columns}; "
                f"got {tuple(cache.columns)}."
            )
        if len(table[-1].widths) != len(cache.sequence_columns):
            raise ValueError(
                f"`table` must have a width for each of {list(cache.sequence_columns)}; "
                f"got {table[-1].widths}."
            )
        self.table = table
        self._samplers = dict(samplers or {})
        for name in self._samplers:
            checks.require_choice("samplers", name, cache.sequence_columns)
            # Without its text the cache raises here already, not in the middle of the training.
            cache.sequence_columns[name].texts(np.zeros(1, np.int64))
        self._members, self._truncated = self._assign()
        self._layout = self._lay_out()

    def __len__(self):
        return sum(batches for batches, _ in self._layout)

    def settings(self):
        return {"table": self.table.get_config(), "samplers": sorted(self._samplers)}

    def report(self):
        plan = self.plan(0)
        reports = []
        for index, (bucket, (batches, _)) in enumerate(zip(self.table, self._layout, strict=True)):
            examples = plan.examples[index]
            tokens = 0
            columns = self.cache.sequence_columns.values()
            for column, width in zip(columns, bucket.widths, strict=True):
                _, lengths = column.spans(examples)
                tokens += int(np.minimum(lengths + 1, width).sum())
            reports.append(BucketReport(bucket, batches, len(examples), tokens))
        skipped = len(self.cache) - sum(report.examples for report in reports)
        return BatchReport(tuple(reports), skipped=skipped, truncated=self._truncated)

    def _rows(self, epoch, number):
        """Returns the examples of a batch, and a padded matrix `[rows, width]` of each column."""
        index, examples = self.plan(epoch)[number]
        bucket = self.table[index]
        matrices = []
        for name, width in zip(self.cache.sequence_columns, bucket.widths, strict=True):
            matrix = np.zeros((bucket.rows, width), np.int32)
            rows = np.arange(len(examples))
            column = self.cache.columns[name]
            _write_rows(column, examples, rows, matrix)
            if name in self._samplers:
                key = json.dumps([self.seed, "sample", epoch, number, name]).encode()
                seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "little") >> 1
                strings = tf.constant(column.texts(examples))
                ragged = self._samplers[name](strings, seed)
                _require_ids(ragged, column.vocabulary_size, name)
                sampled = SampledColumn(ragged)
                fitting = rows[sampled.spans(rows)[1] < width]
                matrix[fitting] = 0
                _write_rows(sampled, fitting, fitting, matrix)
            matrices.append(matrix)
        return examples, matrices

    def _assign(self):
        """Returns the examples of each bucket, and how many are truncated."""
        assigned, truncated = [], 0
        for lengths in self.cache.iterate_lengths():
            assigned.append(self.table.assign(lengths).astype(np.int16))
            is_cut = (lengths + 1 > np.array(self.table[-1].widths)).any(axis=1)
            truncated += int(np.count_nonzero(is_cut & (assigned[-1] >= 0)))
        assigned = np.concatenate(assigned)
        order = np.argsort(assigned, kind="stable")
        ends = np.searchsorted(assigned[order], np.arange(-1, len(self.table)), side="right")
        members = [order[first:last] for first, last in itertools.pairwise(ends)]
        if not any(map(len, members)):
            raise UserError(
                f"All {len(self.cache)} examples are longer than the last bucket's widths "
                f"{self.table[-1].widths}. Use a wider one, or too_long='truncate'."
            )
        return members, truncated

    def _lay_out(self):
        """Returns of each bucket how many batches it has, and where its left-over examples go."""
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

    def _make_plan(self, epoch):
        arriving = [[] for _ in self.table]
        examples = []
        for index, (batches, larger) in enumerate(self._layout):
            pool = np.concatenate([self._members[index], *arriving[index]])
            pool = pool[shuffled(len(pool), self.seed, "examples", epoch, index)]
            if larger is not None:
                last = batches * self.table[index].rows
                arriving[larger].append(pool[last:])
                pool = pool[:last]
            examples.append(pool)
        return EpochPlan(self.table, examples, shuffled(len(self), self.seed, "batches", epoch))


class EpochPlan:
    """The batches of one epoch: `plan[n]` is the number of the bucket and the examples of batch n.

    Args:
        table: the `BucketTable`.
        examples: of each bucket the examples, in the order in which they fill its batches.
        order: the order of the batches, which are counted bucket by bucket.
    """

    def __init__(self, table, examples, order):
        self.examples = examples
        self._order = order
        self._rows = [bucket.rows for bucket in table]
        batches = [-(-len(pool) // rows) for pool, rows in zip(examples, self._rows, strict=True)]
        self._ends = np.cumsum(batches)
        self._begins = self._ends - batches

    def __len__(self):
        return len(self._order)

    def __getitem__(self, number):
        if not 0 <= number < len(self):
            raise IndexError(f"A batch from 0 to {len(self) - 1} was expected; got {number}.")
        position = self._order[number]
        index = int(np.searchsorted(self._ends, position, side="right"))
        first = (position - self._begins[index]) * self._rows[index]
        return index, self.examples[index][first : first + self._rows[index]]


def _require_ids(ragged, vocabulary_size, name):
    ids = ragged.values.numpy()
    if len(ids) and not 1 <= ids.min() <= ids.max() < vocabulary_size:
        raise ValueError(
            f"The sampler of column {name!r} must give ids from 1 to {vocabulary_size - 1}, as the "
            f"cache's tokenizer does; got {ids.min()} to {ids.max()}. Is it of that tokenizer?"
        )


def _write_rows(column, examples, rows, matrix):
    """Writes one sequence a row, cut at the matrix' width."""
    width = matrix.shape[1]
    counts = np.minimum(column.spans(examples)[1] + 1, width)
    write_sequences(column, examples, np.zeros_like(examples), counts, rows * width, matrix)
