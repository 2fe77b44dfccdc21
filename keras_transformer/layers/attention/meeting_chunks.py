"""Chunks of queries and of keys, of which two at a time meet."""

import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.softmax_attention import HIDDEN, full_precision


class MeetingChunks:
    """Which chunk of keys may be seen by which chunk of queries, and how they score.

    Args:
        queries, keys: the `Chunks` of the two axes.
        mask: boolean, broadcastable to `[B, H, T, S]`, or None.
        offset: position of the first query among the keys.
        is_causal: whether the future is hidden.
        rate: of dropout.
        seed: int32 `[2]`, that all dropout of a call follows from; or None for no dropout.
    """

    def __init__(self, queries, keys, mask, offset, is_causal, rate, seed):
        self.queries, self.keys = queries, keys
        self.mask = None if mask is None else self._cut_mask(mask)
        self.offset, self.is_causal, self.rate, self.seed = offset, is_causal, rate, seed

    def keys_for(self, i):
        """One more than the number of the last chunk of keys that queries `i` may see."""
        if not self.is_causal:
            return self.keys.count
        end = self.offset + (i + 1) * self.queries.size  # after the last query's position
        return tf.minimum(-(-end // self.keys.size), self.keys.count)

    def queries_for(self, j):
        """The number of the first chunk of queries that may see keys `j`."""
        if not self.is_causal:
            return 0
        return tf.maximum((j * self.keys.size - self.offset) // self.queries.size, 0)

    def scores(self, query, key, i, j):
        """Scores `[B, H, c, c]` of chunk `i` of queries and `j` of keys, hidden ones very low."""
        scores = full_precision(tf.matmul(query, key, transpose_b=True))
        keys = j * self.keys.size + tf.range(self.keys.size)
        visible = keys < self.keys.length  # [c]
        if self.is_causal:
            queries = self.offset + i * self.queries.size + tf.range(self.queries.size)
            visible &= keys <= queries[:, None]  # [c, c]
        if self.mask is not None:
            # An axis of 1 stands for all chunks.
            row = tf.gather(self.mask, tf.minimum(i, tf.shape(self.mask)[0] - 1))
            visible &= tf.gather(row, tf.minimum(j, tf.shape(self.mask)[1] - 1))
        masked = tf.where(visible, scores, tf.cast(HIDDEN, scores.dtype))
        return tf.ensure_shape(masked, scores.shape)

    def dropout(self, i, j, like):
        """A function that drops some of what is shaped `like`: the same ones for `i` and `j`."""
        if self.seed is None:
            return lambda weights: weights
        seed = tf.random.experimental.stateless_fold_in(self.seed, i * self.keys.count + j)
        stays = tf.random.stateless_uniform(tf.shape(like), seed) >= self.rate
        factors = tf.cast(stays, like.dtype) / (1 - self.rate)
        return lambda weights: weights * factors

    def _cut_mask(self, mask):
        """`[B, H, T, S]` as `[N, K, B, H, c, c]`; an axis of 1 becomes two of 1."""
        batch_size, heads, *lengths = ops.shape(mask)
        counts, sizes, paddings = [], [], [[0, 0], [0, 0]]
        for length, chunks in zip(lengths, (self.queries, self.keys), strict=True):
            count, size = chunks.count, chunks.size
            if not isinstance(length, int):
                count, size = (tf.where(length == 1, 1, number) for number in (count, size))
            elif length == 1:
                count, size = 1, 1
            counts.append(count)
            sizes.append(size)
            paddings.append([0, count * size - length])
        shape = (batch_size, heads, counts[0], sizes[0], counts[1], sizes[1])
        return ops.transpose(ops.reshape(tf.pad(mask, paddings), shape), (2, 4, 0, 1, 3, 5))
