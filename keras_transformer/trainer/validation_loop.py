"""Loss, accuracy and perplexity over a whole corpus, in one call of a compiled function."""

import tensorflow as tf

from keras_transformer.trainer.replicas import Replicas
from keras_transformer.trainer.token_statistics import SUMS, TokenStatistics, token_sums


class ValidationLoop:
    """Measures a compiled Keras model, without dropout and without changing anything.

    Args:
        model: a model on which `compile(optimizer, loss)` was called.
        batches: `Batches`; one epoch of them is the corpus.
    """

    def __init__(self, model, batches):
        self.model = model
        self.batches = batches
        self._replicas = Replicas()
        self._add_up = tf.function(self._trace, autograph=False)

    def measure(self, most=None):
        """Returns "loss", "accuracy" and "perplexity" over all tokens, floats by name.

        Args:
            most: of a dry run: no more batches than that.
        """
        iterator = self._replicas.iterate(self.batches)
        count = min(len(self.batches), most or len(self.batches))
        sums = self._add_up(iterator, tf.constant(count))
        return TokenStatistics(*map(float, sums)).logs()

    def _trace(self, iterator, count):
        def add(number, total):
            sums = self._replicas.strategy.run(self._sums, next(iterator))
            sums = self._replicas.strategy.experimental_local_results(sums)[0]
            return number + 1, total + sums

        zeros = tf.zeros(len(SUMS), tf.float64)
        _, total = tf.while_loop(lambda number, _: number < count, add, [0, zeros])
        return total

    def _sums(self, inputs, labels):
        sums = token_sums(self.model.loss, labels, self.model(inputs, training=False))
        return self._replicas.sum(tf.cast(tf.stack(sums), tf.float64))
