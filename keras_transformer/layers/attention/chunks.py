"""An axis in chunks."""

import tensorflow as tf
from keras import ops


class Chunks:
    """An axis cut into chunks of one size, with padding after the end.

    Args:
        length: of the axis, a number or a scalar tensor.
        largest: how long a chunk is at most.

    Attributes:
        count, size: of the chunks, numbers or scalar tensors.

    >>> chunks = Chunks(length=10, largest=4)
    >>> chunks.count, chunks.size
    (3, 4)
    """

    def __init__(self, length, largest):
        self.length = length
        at_least = max if isinstance(length, int) else tf.maximum
        self.count = at_least(-(-length // largest), 1)
        self.size = at_least(-(-length // self.count), 1)  # all alike, with little padding

    def cut(self, x):
        """`[B, H, T, D]` as `[N, B, H, c, D]`."""
        batch_size, heads, _, width = ops.shape(x)
        missing = self.count * self.size - self.length
        padded = tf.pad(x, [[0, 0], [0, 0], [0, missing], [0, 0]])
        chunks = ops.reshape(padded, (batch_size, heads, self.count, self.size, width))
        return ops.transpose(chunks, (2, 0, 1, 3, 4))

    def join(self, chunks):
        """What `cut` does, undone."""
        _, batch_size, heads, _, width = ops.shape(chunks)
        chunks = ops.transpose(chunks, (1, 2, 0, 3, 4))
        joined = ops.reshape(chunks, (batch_size, heads, self.count * self.size, width))
        return joined[:, :, : self.length]
