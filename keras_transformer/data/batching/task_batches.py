"""Bucketed batches of each task: pairs, labeled texts, documents, and pairs with parsed sources."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import IDS
from keras_transformer.data.batching.bucketed_batches import BucketedBatches, Sampler
from keras_transformer.data.batching.buckets import BucketTable
from keras_transformer.data.corpora.conllu import ConlluCorpus
from keras_transformer.data.token_cache import TokenCache
from keras_transformer.data.tokenization import FIRST_LABEL_ID
from keras_transformer.text import NO_HEAD, Tokenizer, number_words


class PairBatches(BucketedBatches):
    """Batches of a corpus with the columns `source` and `target`.

    A batch is `({"source": [B, S], "target": [B, T]}, labels [B, T])`, all `int32`: `source` is the
    ids and the end id, `target` the start id and the ids, `labels` the ids and the end id.

    Args: as in `BucketedBatches`.

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

    Args: as in `BucketedBatches`. The tokenizer of the cache's column `label` is a `LabelIndex`.
    """

    columns: tuple[str, ...] = ("text", "label")
    element_spec: Any = (
        {"source": IDS},
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.float32),
    )

    def batch(self, epoch: int, number: int) -> Any:
        examples, (source,) = self._make_rows(epoch, number)
        column = self.cache.columns["label"]
        labels = np.zeros(len(source), np.int32)
        labels[: len(examples)] = column.gather(*column.spans(examples)) - np.int32(FIRST_LABEL_ID)
        weights = np.zeros(len(source), np.float32)
        weights[: len(examples)] = 1
        return {"source": source}, labels, weights


class DocumentBatches(BucketedBatches):
    """Batches of a corpus with the column `text`. `PackedBatches` contain less padding.

    A batch is `({"target": [B, T]}, labels [B, T])`, both `int32`: `target` is the start id and the
    ids, `labels` the ids and the end id.

    Args: as in `BucketedBatches`.
    """

    columns: tuple[str, ...] = ("text",)
    element_spec: Any = {"target": IDS}, IDS

    def batch(self, epoch: int, number: int) -> Any:
        examples, (labels,) = self._make_rows(epoch, number)
        return {"target": self._decoder_inputs(labels, examples)}, labels


# Number of trees that are processed together.
_CHUNK = 2048


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
        seed: Integer from 0 to 2**64 - 1. Seed of the order.
        samplers: See `BucketedBatches`.

    ```python
    corpus = ConlluCorpus(source="train.conllu", target="train.en")
    cache = tokenize_corpus(corpus, {"source": german, "target": english}, "caches")
    batches = TreeBatches(cache, choose_buckets(cache), corpus, german, seed=1)
    model.fit(batches.dataset(), steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```
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
        heads, sizes, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [0]
        all_trees = corpus.trees()
        while trees := list(itertools.islice(all_trees, _CHUNK)):
            words = tf.RaggedTensor.from_row_lengths(  # pyright: ignore
                [word for tree in trees for word in tree.words], [len(t.words) for t in trees]
            )
            sizes.append(tokenizer.word_sizes(words).values.numpy())
            heads.append(np.fromiter(itertools.chain(*(t.heads for t in trees)), np.int32))
            lengths.extend(len(tree.words) for tree in trees)
        self._heads, self._sizes = np.concatenate(heads), np.concatenate(sizes)
        self._offsets = np.cumsum(lengths)
        self._require_trees_of_cache()

    element_spec: Any = (
        dict.fromkeys(("source", "target", "source_words", "source_heads"), IDS),
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
        for row, example in enumerate(examples):
            first, last = self._offsets[example], self._offsets[example + 1]
            count = min(last - first, length)
            heads[row, :count] = self._heads[first : first + count]
            sizes[row, :count] = self._sizes[first : first + count]
        words = number_words(self._tokenizer, inputs["source"], tf.constant(sizes)).numpy()
        return {**inputs, "source_words": words, "source_heads": heads}, labels

    def _require_trees_of_cache(self) -> None:
        """Raises if the words of a tree have more or less text than the tokens of its example."""
        column, is_same = self.cache.columns["source"], len(self._offsets) == len(self.cache) + 1
        for first in range(0, len(self.cache) if is_same else 0, _CHUNK):
            examples = np.arange(first, min(first + _CHUNK, len(self.cache)))
            begins, counts = column.spans(examples)
            ids = column.gather(begins, counts)
            is_same &= len(ids) == 0 or ids.max() < len(self._tokenizer.token_sizes)
            if not is_same:
                break
            of_tokens = _sum_runs(self._tokenizer.token_sizes[ids], counts)
            offsets = self._offsets[first : first + len(examples) + 1]
            of_words = _sum_runs(self._sizes[offsets[0] : offsets[-1]], np.diff(offsets))
            is_same &= np.array_equal(of_tokens, of_words)
        if not is_same:
            fix = "Give the corpus of the cache, and the tokenizer of its sources."
            raise UserError("The trees do not match the tokens of `cache`.", fix=fix)


def _sum_runs(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the sum of each run of consecutive values."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(lengths)
    return totals[ends] - totals[ends - lengths]
