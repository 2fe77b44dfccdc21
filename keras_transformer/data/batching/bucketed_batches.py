"""Batches with one example per row, in the shapes of a bucket table: a class for each task."""

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
    IDS,
    Batches,
    BatchReport,
    BucketReport,
    Plan,
    shuffled,
)
from keras_transformer.data.batching.buckets import BucketTable
from keras_transformer.data.corpora.conllu import ConlluCorpus
from keras_transformer.data.token_cache import (
    TokenCache,
    TokenColumn,
    concatenated_ranges,
    require_token_ids,
)
from keras_transformer.data.tokenization import FIRST_LABEL_ID
from keras_transformer.text import NO_HEAD, SpecialIds, Tokenizer, number_words

#: A function of strings `[B]` and a seed that returns a `tf.RaggedTensor` of ids `[B, None]`.
Sampler: TypeAlias = Callable[..., tf.RaggedTensor]


def write_sequences(
    column: TokenColumn,
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


def write_rows(
    values: np.ndarray, begins: np.ndarray, counts: np.ndarray, rows: np.ndarray, matrix: np.ndarray
) -> None:
    """Writes `counts[i]` values from index `begins[i]` to the beginning of row `rows[i]`."""
    cells = concatenated_ranges(rows * matrix.shape[1], counts)
    matrix.reshape(-1)[cells] = values[concatenated_ranges(begins, counts)]


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
# Share of samples that must fit. Headroom for the longest sample would be padding in other rows.
_FITTING = 0.9


def measure_headroom(cache: TokenCache, samplers: Mapping[str, Sampler]) -> tuple[float, ...]:
    """Returns the `headroom` of each column with which nine in ten samples fit.

    Args:
        cache: A `TokenCache` with its text.
        samplers: A mapping from columns to samplers, as in `BucketedBatches`. Other columns get 1.
    """
    examples = np.unique(np.linspace(0, len(cache) - 1, _EXAMPLES).astype(np.int64))
    headroom = dict.fromkeys(cache.sequence_columns, 1.0)
    for name in headroom.keys() & samplers:
        column = cache.columns[name]
        texts = tf.constant(column.texts(examples))
        sampled = samplers[name](texts, seed=0).row_lengths().numpy()
        usual = np.maximum(column.spans(examples)[1], 1)
        headroom[name] = max(1.0, float(np.quantile(sampled / usual, _FITTING)))
    return tuple(headroom.values())


class BucketedBatches(Batches):
    """Base of the batches with one example per row; subclasses combine the columns.

    In each epoch the examples of every bucket are shuffled and cut into batches, and all batches
    are shuffled. Left-over examples of a bucket move to the next larger one, unless a batch that is
    filled up with padding costs less.

    Args:
        cache: A `TokenCache` with the columns that the subclass names in `columns`.
        table: A `BucketTable`, for example `choose_buckets(cache)`.
        seed: Seed of the order, from 0 to 2**64 - 1.
        samplers: A mapping from columns to functions that segment texts anew for each batch, for
            subword regularization (Kudo 2018). A function takes strings `[B]` and a seed, like a
            tokenizer's `sample`. Samplers need a cache with its text, and a table with `headroom`
            (see `measure_headroom`); a sample that is too long for its row is not used. The
            fingerprint contains the columns with a sampler, not what the sampler does.
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
        columns = self.cache.sequence_columns.items()
        for (name, column), length in zip(columns, bucket.lengths, strict=True):
            matrix = np.full((bucket.rows, length), self.special_ids.padding, np.int32)
            positions = np.arange(len(examples)) * length
            counts = np.minimum(column.spans(examples)[1] + 1, length)
            firsts, end_id = np.zeros_like(examples), self.special_ids.end
            write_sequences(column, examples, firsts, counts, positions, matrix, end_id)
            if name in self._samplers:
                key = json.dumps([self.seed, "sample", epoch, number, name]).encode()
                seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "little") >> 1
                self._write_samples(name, column.texts(examples), seed, matrix)
            matrices.append(matrix)
        return examples, matrices

    def _write_samples(self, name: str, texts: list[bytes], seed: int, matrix: np.ndarray) -> None:
        """Replaces the rows of a matrix by samples that fit into them."""
        ragged = self._samplers[name](tf.constant(texts), seed)
        ids, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        origin, fix = f"The sampler of column {name!r}", "Give a sampler of the cache's tokenizer."
        vocabulary_size = self.cache.columns[name].vocabulary_size
        require_token_ids(origin, ids, vocabulary_size, self.special_ids, fix)
        counts = np.diff(splits)
        rows = np.flatnonzero(counts < matrix.shape[1])
        matrix[rows] = self.special_ids.padding
        write_rows(ids, splits[rows], counts[rows], rows, matrix)
        matrix[rows, counts[rows]] = self.special_ids.end

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


class PairBatches(BucketedBatches):
    """Batches of a corpus with the columns `source` and `target`.

    A batch is `({"source": [B, S], "target": [B, T]}, labels [B, T])`, all `int32`: `source` is the
    ids and the end id, `target` the start id and the ids, `labels` the ids and the end id.

    >>> import tempfile
    >>> from keras_transformer.data import MemoryCorpus, choose_buckets, tokenize_corpus
    >>> from keras_transformer.text import ByteTokenizer
    >>> corpus = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> cache = tokenize_corpus(corpus, ByteTokenizer(), tempfile.mkdtemp())
    >>> batches = PairBatches(cache, choose_buckets(cache, max_buckets=1), seed=1)
    >>> inputs, labels = batches.batch(epoch=0, number=0)
    >>> inputs["source"].shape, inputs["target"].shape, labels.shape
    ((2, 5), (2, 4), (2, 4))
    """

    columns: tuple[str, ...] = ("source", "target")
    element_spec: Any = {"source": IDS, "target": IDS}, IDS

    def batch(self, epoch: int, number: int) -> Any:
        examples, (source, labels) = self._make_rows(epoch, number)
        return {"source": source, "target": self._decoder_inputs(labels, examples)}, labels


class LabeledBatches(BucketedBatches):
    """Batches of a corpus with the columns `text` and `label`.

    A batch is `({"source": [B, S]}, labels [B], weights [B])`: `source` is the ids and the end id,
    `labels` are the numbers of the classes, `int32`, and `weights`, which `model.fit` and every
    Keras loss use, are 1.0 for texts and 0.0 for rows that only fill the batch.

    The tokenizer of the cache's column `label` is a `LabelIndex`.
    """

    columns: tuple[str, ...] = ("text", "label")
    element_spec: Any = (
        {"source": IDS},
        *(tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.float32)),
    )

    def batch(self, epoch: int, number: int) -> Any:
        examples, (source,) = self._make_rows(epoch, number)
        column = self.cache.columns["label"]
        labels = np.zeros(len(source), np.int32)
        labels[: len(examples)] = column.gather(*column.spans(examples)) - np.int32(FIRST_LABEL_ID)
        weights = (np.arange(len(source)) < len(examples)).astype(np.float32)
        return {"source": source}, labels, weights


class DocumentBatches(BucketedBatches):
    """Batches of a corpus with the column `text`. `PackedBatches` contain less padding.

    A batch is `({"target": [B, T]}, labels [B, T])`, both `int32`: `target` is the start id and the
    ids, `labels` the ids and the end id.
    """

    columns: tuple[str, ...] = ("text",)
    element_spec: Any = {"target": IDS}, IDS

    def batch(self, epoch: int, number: int) -> Any:
        examples, (labels,) = self._make_rows(epoch, number)
        return {"target": self._decoder_inputs(labels, examples)}, labels


_CHUNK = 2048  # trees that are processed together


class TreeBatches(PairBatches):
    """Batches of pairs with the dependency trees of their sources.

    A batch is that of `PairBatches` with two more inputs for a `Transformer` with `tree_positions`:
    `"source_words"` `[B, S]` has for each source token the number of its word, from 1, and 0 for
    the end id and padding; `"source_heads"` `[B, S]` has for each word the number of its head, 0
    for the root, and `NO_HEAD` for padding (a word has at least one token, so that S is enough). If
    a sentence is truncated, the missing words and all words that depend on them are in no tree.

    Args:
        cache: The `TokenCache` of the corpus.
        table: A `BucketTable`.
        corpus: The `ConlluCorpus` of the cache. Its trees are read once, by the constructor.
        tokenizer: The tokenizer of its sources.
        seed: Seed of the order, from 0 to 2**64 - 1.
        samplers: Functions that segment texts anew, by column, as in `BucketedBatches`.
    """

    def __init__(
        self,
        cache: TokenCache,
        table: BucketTable,
        corpus: ConlluCorpus,
        tokenizer: Tokenizer,
        *,
        seed: int,
        samplers: Mapping[str, Sampler] | None = None,
    ) -> None:
        super().__init__(cache, table, seed=seed, samplers=samplers)
        self._tokenizer = tokenizer
        heads = [np.zeros(0, np.int32)]
        sizes = [tf.RaggedTensor.from_row_splits(tf.zeros(0, tf.int32), [0])]
        all_trees = corpus.trees()
        while trees := list(itertools.islice(all_trees, _CHUNK)):
            words = tf.RaggedTensor.from_row_lengths(  # pyright: ignore
                [word for tree in trees for word in tree.words], [len(t.words) for t in trees]
            )
            sizes.append(tokenizer.word_sizes(words))
            heads.append(np.array([head for tree in trees for head in tree.heads], np.int32))
        all_sizes = tf.concat(sizes, axis=0)
        self._require_trees_of_cache(all_sizes)
        self._heads, self._sizes = np.concatenate(heads), all_sizes.values.numpy()
        self._splits = all_sizes.row_splits.numpy()

    element_spec: Any = (
        dict.fromkeys(["source", "target", "source_words", "source_heads"], IDS),
        IDS,
    )

    @property
    def padding_values(self) -> Any:
        inputs, labels = super().padding_values
        return {**inputs, "source_words": 0, "source_heads": NO_HEAD}, labels

    def batch(self, epoch: int, number: int) -> Any:
        inputs, labels = super().batch(epoch, number)
        _, examples = self.plan(epoch)[number]
        rows, length = inputs["source"].shape
        heads = np.full((rows, length), NO_HEAD, np.int32)
        sizes = np.zeros((rows, length), np.int32)
        begins = self._splits[examples]
        counts = np.minimum(self._splits[examples + 1] - begins, length)
        for values, matrix in ((self._heads, heads), (self._sizes, sizes)):
            write_rows(values, begins, counts, np.arange(len(examples)), matrix)
        words = number_words(self._tokenizer, inputs["source"], tf.constant(sizes)).numpy()
        return {**inputs, "source_words": words, "source_heads": heads}, labels

    def _require_trees_of_cache(self, sizes: tf.RaggedTensor) -> None:
        """Raises if the words of a tree have more or less text than the tokens of its example."""
        column, token_sizes = self.cache.columns["source"], self._tokenizer.token_sizes
        is_same = int(sizes.nrows()) == len(self.cache)
        for first in range(0, len(self.cache) if is_same else 0, _CHUNK):
            examples = np.arange(first, min(first + _CHUNK, len(self.cache)))
            begins, counts = column.spans(examples)
            ids = column.gather(begins, counts)
            is_same &= len(ids) == 0 or ids.max() < len(token_sizes)
            if not is_same:
                break
            of_tokens = tf.RaggedTensor.from_row_lengths(token_sizes[ids], counts)
            of_words = sizes[first : first + _CHUNK]
            is_same &= np.array_equal(tf.reduce_sum(of_tokens, 1), tf.reduce_sum(of_words, 1))
        if not is_same:
            fix = "Give the corpus of the cache, and the tokenizer of its sources."
            raise UserError("The trees do not match the tokens of `cache`.", fix=fix)
