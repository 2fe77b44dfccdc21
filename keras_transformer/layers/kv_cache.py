"""What self-attention remembers, no longer than it is."""

from typing import NamedTuple

import tensorflow as tf


class GrowingCache(NamedTuple):
    """Keys and values of the positions so far, with room for no others.

    A step reads and copies what has been written, whatever the longest length may be. But shapes
    change from step to step, which XLA does not allow: for it there is the cache of fixed room, see
    `MultiHeadAttention.initial_cache`.

    Attributes:
        key, value: `[B, K, L, D]`, with L growing.
        mask: boolean `[B, L]`, False for padding.

    >>> cache = GrowingCache.empty(batch_size=2, heads=4, width=8, dtype="float32")
    >>> new = {"key": tf.ones([2, 4, 1, 8]), "value": tf.ones([2, 4, 1, 8]), "mask": None}
    >>> cache.extended(new).mask.shape
    TensorShape([2, 1])
    """

    key: tf.Tensor
    value: tf.Tensor
    mask: tf.Tensor

    @classmethod
    def empty(cls, batch_size, heads, width, dtype):
        """A cache of no positions. In a graph its length is not known, so that loops may change it.

        Args:
            batch_size: B, an integer or a scalar tensor.
            heads: K.
            width: D.
            dtype: of keys and values.
        """

        def nothing(shape, dtype):
            known = [None, *shape[1:2], None, *shape[3:]] if len(shape) == 4 else [None, None]
            return tf.compat.v1.placeholder_with_default(tf.zeros(shape, dtype), known)

        heads_shape = [batch_size, heads, 0, width]
        return cls(
            nothing(heads_shape, dtype),
            nothing(heads_shape, dtype),
            nothing([batch_size, 0], "bool"),
        )

    def extended(self, new):
        """The cache with those of T more positions: a dictionary of the three, the mask or None."""
        mask = new["mask"]
        if mask is None:
            batch_size, _, length, _ = tf.unstack(tf.shape(new["key"]))
            mask = tf.fill([batch_size, length], True)
        return GrowingCache(
            tf.concat([self.key, new["key"]], axis=2),
            tf.concat([self.value, new["value"]], axis=2),
            tf.concat([self.mask, mask], axis=1),
        )
