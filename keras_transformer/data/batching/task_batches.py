"""Batches of pairs with a parsed source."""

import itertools

import numpy as np
import tensorflow as tf

from keras_transformer.data.batching.bucketed_batches import BucketedBatches, decoder_inputs
from keras_transformer.text import NO_HEAD, number_words
from keras_transformer.text.tokenizer import FIRST_PIECE_ID


class PairBatches(BucketedBatches):
    """Batches of a corpus with the columns `source` and `target`.

    A batch is `({"source": [B, S], "target": [B, T]}, labels [B, T])`, all `int32`: `source` is the
    ids and END, `target` START and the ids, `labels` the ids and END.

    Args: as in `BucketedBatches`.

    Example:

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

    columns = ("source", "target")

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return {"source": ids, "target": ids}, ids

    def batch(self, epoch, number):
        examples, (source, labels) = self._rows(epoch, number)
        target = decoder_inputs(labels, np.arange(len(examples)) * labels.shape[1])
        return {"source": source, "target": target}, labels


class LabeledBatches(BucketedBatches):
    """Batches of a corpus with the columns `text` and `label`.

    A batch is `({"source": [B, S]}, labels [B], weights [B])`: `source` is the ids and END,
    `labels` the numbers of the classes, `int32`, and `weights` 1.0 for texts and 0.0 for rows that
    only fill up the batch. `model.fit` and every Keras loss know what to do with the weights.

    Args: as in `BucketedBatches`. The tokenizer of the cache's column `label` is a `LabelIndex`.
    """

    columns = ("text", "label")

    @property
    def element_spec(self):
        ids = tf.TensorSpec([None, None], tf.int32)
        return (
            {"source": ids},
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
        )

    def batch(self, epoch, number):
        examples, (source,) = self._rows(epoch, number)
        column = self.cache.columns["label"]
        labels = np.zeros(len(source), np.int32)
        labels[: len(examples)] = column.gather(*column.spans(examples)) - np.int32(FIRST_PIECE_ID)
        weights = np.zeros(len(source), np.float32)
        weights[: len(examples)] = 1
        return {"source": source}, labels, weights


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


# Trees that are looked at together.
_CHUNK = 2048


class TreeBatches(PairBatches):
    """Batches of pairs with the dependency trees of their sources.

    A batch is `({"source": [B, S], "target": [B, T], "source_words": [B, S], "source_heads":
    [B, S]}, labels [B, T])`, for a `Transformer` with `tree_positions`: for each source token the
    number of its word, counted from 1, and 0 for END and padding; for each word the number of its
    head, 0 for the root, and `NO_HEAD` for padding. The rest is as in `PairBatches`. There is
    room for as many heads as tokens, since a word has one at least. Where a sentence is cut, its
    words beyond are in no tree, nor is what depends on them.

    Args:
        cache: the `TokenCache` of the corpus.
        table: the `BucketTable`.
        corpus: the `ConlluCorpus` that the cache was made from. Its trees are read once, now.
        tokenizer: the tokenizer of its sources.
        seed: of the order, from 0 to 2**64 - 1.
        samplers: see `BucketedBatches`.

    Example:

    ```python
    corpus = ConlluCorpus(source="train.conllu", target="train.en")
    cache = tokenize_corpus(corpus, {"source": german, "target": english}, "caches")
    batches = TreeBatches(cache, choose_buckets(cache), corpus, german, seed=1)
    model.fit(batches.dataset(), steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```
    """

    def __init__(self, cache, table, corpus, tokenizer, *, seed, samplers=None):
        super().__init__(cache, table, seed=seed, samplers=samplers)
        self._tokenizer = tokenizer
        heads, sizes, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [0]
        all_trees = corpus.trees()
        while trees := list(itertools.islice(all_trees, _CHUNK)):
            words = tf.RaggedTensor.from_row_lengths(
                [word for tree in trees for word in tree.words], [len(t.words) for t in trees]
            )
            sizes.append(tokenizer.word_sizes(words).values.numpy())
            heads.append(np.fromiter(itertools.chain(*(t.heads for t in trees)), np.int32))
            lengths.extend(len(tree.words) for tree in trees)
        self._heads, self._sizes = np.concatenate(heads), np.concatenate(sizes)
        self._offsets = np.cumsum(lengths)
        self._require_fit()

    @property
    def element_spec(self):
        inputs, labels = super().element_spec
        ids = inputs["source"]
        return {**inputs, "source_words": ids, "source_heads": ids}, labels

    def batch(self, epoch, number):
        inputs, labels = super().batch(epoch, number)
        _, examples = self.plan(epoch)[number]
        rows, width = inputs["source"].shape
        heads = np.full((rows, width), NO_HEAD, np.int32)
        sizes = np.zeros((rows, width), np.int32)
        for row, example in enumerate(examples):
            first, last = self._offsets[example], self._offsets[example + 1]
            count = min(last - first, width)
            heads[row, :count] = self._heads[first : first + count]
            sizes[row, :count] = self._sizes[first : first + count]
        words = number_words(self._tokenizer, inputs["source"], sizes).numpy()
        return {**inputs, "source_words": words, "source_heads": heads}, labels

    def _require_fit(self):
        """Raises if the words of a tree take up more or less than the tokens of its text."""
        column, is_same = self.cache.columns["source"], len(self._offsets) == len(self.cache) + 1
        for first in range(0, len(self.cache) if is_same else 0, _CHUNK):
            examples = np.arange(first, min(first + _CHUNK, len(self.cache)))
            begins, counts = column.spans(examples)
            ids = column.gather(begins, counts)
            is_same &= len(ids) == 0 or ids.max() < len(self._tokenizer.token_sizes)
            if not is_same:
                break
            of_tokens = _sums(self._tokenizer.token_sizes[ids], counts)
            offsets = self._offsets[first : first + len(examples) + 1]
            of_words = _sums(self._sizes[offsets[0] : offsets[-1]], np.diff(offsets))
            is_same &= np.array_equal(of_tokens, of_words)
        if not is_same:
            raise ValueError(
                "The trees do not fit the tokens of `cache`. Give the corpus and the tokenizer of "
                "the source that it was made from."
            )


def _sums(values, lengths):
    """The sum of each run of so many values."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(lengths)
    return totals[ends] - totals[ends - lengths]
