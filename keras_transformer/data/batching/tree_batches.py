"""Batches of pairs with a parsed source."""

import numpy as np

from keras_transformer.data.batching.pair_batches import PairBatches
from keras_transformer.data.batching.piece_depths import piece_depths


class TreeBatches(PairBatches):
    """Batches of pairs with, for each source token, its depth in the sentence's dependency tree.

    A batch is `({"source": [B, S], "target": [B, T], "source_depths": [B, S]}, labels [B, T])`, for
    a `Transformer` with `reads_source_depths`. The rest is as in `PairBatches`. END and padding,
    which are in no tree, have depth 0; the root has 1.

    Args:
        cache: the `TokenCache` of the corpus.
        table: the `BucketTable`.
        corpus: the `ConlluCorpus` that the cache was made from. Its trees are read once, now.
        tokenizer: the tokenizer of its sources.
        seed: of the order, from 0 to 2**64 - 1.

    Example:

    ```python
    corpus = ConlluCorpus(source="train.conllu", target="train.en")
    cache = tokenise_corpus(corpus, {"source": german, "target": english}, "caches")
    batches = TreeBatches(cache, choose_buckets(cache), corpus, german, seed=1)
    model.fit(batches.dataset(), steps_per_epoch=len(batches), epochs=10, shuffle=False)
    ```
    """

    def __init__(self, cache, table, corpus, tokenizer, *, seed):
        super().__init__(cache, table, seed=seed)
        self._depths = piece_depths(corpus.trees(), tokenizer)
        _, lengths = cache.columns["source"].spans(np.arange(len(cache)))
        if [len(depths) for depths in self._depths] != lengths.tolist():
            raise ValueError(
                "The trees do not fit the tokens of `cache`. Give the corpus and the tokenizer of "
                "the source that it was made from."
            )

    @property
    def element_spec(self):
        inputs, labels = super().element_spec
        return {**inputs, "source_depths": inputs["source"]}, labels

    def batch(self, epoch, number):
        inputs, labels = super().batch(epoch, number)
        _, examples = self.plan(epoch)[number]
        depths = np.zeros_like(inputs["source"])
        for row, example in enumerate(examples):
            of_row = self._depths[example][: depths.shape[1]]
            depths[row, : len(of_row)] = of_row
        return {**inputs, "source_depths": depths}, labels
