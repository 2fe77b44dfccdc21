"""Batches of pairs with a parsed source."""

import itertools

import numpy as np
import tensorflow as tf

from keras_transformer.data.batching.pair_batches import PairBatches
from keras_transformer.text import NO_HEAD, number_words

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
    cache = tokenise_corpus(corpus, {"source": german, "target": english}, "caches")
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
