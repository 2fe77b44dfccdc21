"""Attention to the neighborhood, computed block by block."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    register_mechanism,
    softmax_of_visible,
)


@register_mechanism("local")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LocalAttention(AttentionMechanism):
    """A query sees the keys at most `window` positions away, in causal use those before it.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation",
    section 3.2, around the query's own position; in the Transformer, Liu et al. 2018, "Generating
    Wikipedia by Summarizing Long Sequences", section 4.2.4.

    Queries are cut into blocks of the window's size. Each block is scored against its own keys and
    those of its two neighbors, no others: time and memory grow with T·window. A step from a cache
    reads the window alone, too. A window as wide as the text is full attention.

    Args:
        window: how many positions a query sees on each side. (Beltagy et al. 2020, "Longformer",
            has 256 at most.)

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = LocalAttention(window=32)(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).output_shape
    (None, 4, None, 16)
    """

    supports_cross = False

    def __init__(self, window=128, **kwargs):
        super().__init__(**kwargs)
        self.window = require_positive_integer("window", window)

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
    ):
        length, key_length = ops.shape(query)[2], ops.shape(key)[2]
        spans = _Spans(self.window, length, key_length, query_offset, use_causal_mask)
        mask = attention_mask
        if mask is None:
            mask = ops.ones((1, 1, 1, key_length), dtype="bool")

        queries = spans.of_queries(query * query.shape[-1] ** -0.5)  # [B, H, N, b, D]
        scores = tf.matmul(queries, spans.of_keys(key), transpose_b=True)  # [B, H, N, b, C]
        visible = ops.logical_and(spans.of_mask(mask), spans.is_near())
        weights = ops.cast(softmax_of_visible(scores, visible), self.compute_dtype)
        dropped = self.dropout_layer(weights, training=training)
        context = spans.to_queries(tf.matmul(dropped, spans.of_keys(value)))  # [B, H, T, D]
        return (context, spans.to_keys(weights)) if return_attention_scores else context

    def get_config(self):
        return {**super().get_config(), "window": self.window}


class _Spans:
    """Blocks of queries, and the span of keys that each of them may see.

    Letters: N blocks, b queries in a block, C keys in a span. Lengths are numbers or tensors.

    Args:
        window: keys on each side.
        length: T.
        key_length: S.
        offset: position of the first query among the keys.
        is_causal: whether the spans end with their blocks.
    """

    def __init__(self, window, length, key_length, offset, is_causal):
        self.length, self.key_length, self.offset = length, key_length, offset
        # A few queries, as of a step from a cache, are one block of their own size.
        self.is_one_block = isinstance(length, int) and length <= window
        if isinstance(key_length, int):
            self.window = max(min(window, key_length), 1)
        else:
            self.window = ops.maximum(ops.minimum(window, key_length), 1)
        self.block = length if self.is_one_block else self.window
        self.num_blocks = 1 if self.is_one_block else -(-length // self.window)
        self.sides = 1 if is_causal else 2
        self.span = self.block + self.sides * self.window

    def of_queries(self, x):
        """`[B, H, T, D]` as `[B, H, N, b, D]`, with zeros after the end."""
        batch_size, heads, _, width = ops.shape(x)
        missing = self.num_blocks * self.block - self.length
        padded = tf.pad(x, [[0, 0], [0, 0], [0, missing], [0, 0]])
        return ops.reshape(padded, (batch_size, heads, self.num_blocks, self.block, width))

    def to_queries(self, x):
        """What `of_queries` does, undone."""
        batch_size, heads, _, _, width = ops.shape(x)
        joined = ops.reshape(x, (batch_size, heads, self.num_blocks * self.block, width))
        return joined[:, :, : self.length]

    def of_keys(self, x):
        """The spans of keys or values: `[B, H, S, D]` as `[B, H, N, C, D]`."""
        reach = self._reach(x, axis=2)
        if self.is_one_block:
            return ops.expand_dims(reach, 2)
        batch_size, heads, _, width = ops.shape(reach)
        all_blocks = (batch_size, heads, self.num_blocks + self.sides, self.block, width)
        blocks = ops.reshape(reach, all_blocks)
        neighbors = [blocks[:, :, i : i + self.num_blocks] for i in range(1 + self.sides)]
        return ops.concatenate(neighbors, axis=3)

    def of_mask(self, mask):
        """A mask broadcastable to `[B, H, T, S]` as one that is to `[B, H, N, b, C]`."""
        shape = ops.shape(mask)
        mask = tf.broadcast_to(mask, (*shape[:3], self.key_length))
        if mask.shape[2] == 1:
            of_keys = self.of_keys(ops.swapaxes(mask, 2, 3))  # [B, H, N, C, 1]
            return ops.swapaxes(of_keys, 3, 4)
        rows = tf.broadcast_to(mask, (*shape[:2], self.length, self.key_length))
        rows = self.of_queries(self._reach(rows, axis=3))  # [B, H, N, b, all within reach]
        columns = self._starts() + ops.arange(self.span, dtype="int32")  # [N, C]
        return _take_columns(rows, columns)

    def is_near(self):
        """Which keys of a span lie within the window of a query, boolean `[b, C]`."""
        queries = ops.expand_dims(ops.arange(self.block, dtype="int32"), 1)
        distance = ops.arange(self.span, dtype="int32") - self.window - queries
        furthest = 0 if self.sides == 1 else self.window
        return ops.logical_and(distance >= -self.window, distance <= furthest)

    def to_keys(self, weights):
        """Weights `[B, H, N, b, C]` as `[B, H, T, S]`, with zeros for all that is not near."""
        keys = ops.arange(self.key_length, dtype="int32") - self.offset + self.window
        columns = keys - self._starts()  # [N, S]
        is_inside = ops.logical_and(columns >= 0, columns < self.span)
        placed = _take_columns(weights, ops.clip(columns, 0, self.span - 1))  # [B, H, N, b, S]
        return self.to_queries(placed * ops.cast(ops.expand_dims(is_inside, 1), placed.dtype))

    def _starts(self):
        """Where each span begins among all that is reached, `[N, 1]`."""
        return self.block * ops.expand_dims(ops.arange(self.num_blocks, dtype="int32"), 1)

    def _reach(self, x, axis):
        """What all spans together hold, from a window before the first query; zeros outside."""
        blocks = self.num_blocks * self.block
        paddings = [[0, 0]] * 4
        paddings[axis] = [self.window, blocks - self.length + (self.sides - 1) * self.window]
        begin, size = [0] * 4, list(ops.shape(x))
        begin[axis], size[axis] = self.offset, blocks + self.sides * self.window
        return tf.slice(tf.pad(x, paddings), begin, size)


def _take_columns(x, columns):
    """For each of N blocks other columns: `[B, H, N, b, C]` and `[N, K]` give `[B, H, N, b, K]`."""
    taken = tf.gather(tf.transpose(x, [2, 0, 1, 3, 4]), columns, axis=4, batch_dims=1)
    return tf.transpose(taken, [1, 2, 0, 3, 4])
