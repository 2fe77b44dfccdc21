"""Local attention: a query sees a window of keys; computed block by block."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    AttentionMechanism,
    Integer,
    join_blocks,
    register_mechanism,
    split_blocks,
)


@register_mechanism("local")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LocalAttention(AttentionMechanism):
    """Scaled dot-product attention to the keys at most `window` positions away.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.2, with the window around the query's own position; for the Transformer, Liu et al. 2018,
    "Generating Wikipedia by Summarizing Long Sequences", section 4.2.4.

    Queries are split into blocks of the size of the window. Each block is scored only against its
    own keys and those of its two neighbors, so that time and memory grow with T·window.

    Args:
        window: Integer. Number of positions that a query sees on each side. Default 128.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> LocalAttention(window=32)(states, states, states, use_causal_mask=True).shape
    (None, 4, None, 16)
    """

    supports_cross = False

    def __init__(self, window: int = 128, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.window: int = require_positive_integer("window", window)

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        query, key, mask = inputs.query, inputs.key, inputs.attention_mask
        length, key_length = ops.shape(query)[2], ops.shape(key)[2]
        spans = _Spans(self.window, length, key_length, inputs.query_offset, inputs.use_causal_mask)
        if mask is None:
            mask = ops.ones((1, 1, 1, key_length), dtype="bool")
        queries = spans.split_queries(query * query.shape[-1] ** -0.5)  # [B, H, N, b, D]
        scores = tf.matmul(queries, spans.take_keys(key), transpose_b=True)  # [B, H, N, b, C]
        visible = ops.logical_and(spans.take_mask(mask), spans.in_window())
        values = spans.take_keys(inputs.value)
        context, weights = self.attend(scores, visible, values, inputs.training)
        context = spans.join_queries(context)  # [B, H, T, D]
        return context, spans.weights_of_keys(weights) if inputs.return_attention_scores else None


@dataclasses.dataclass
class _Spans:
    """Blocks of queries, and the span of keys that each block may see.

    Shapes: N blocks, b queries in a block, C keys in a span. Lengths are numbers or scalar tensors.
    """

    window: Integer  # number of keys on each side of a query
    length: Integer  # T
    key_length: Integer  # S
    offset: Integer  # position of the first query among the keys
    is_causal: bool  # whether a span ends with its block

    def __post_init__(self) -> None:
        # A few queries, such as those of a cached step, are one block of their own size.
        self.is_one_block = isinstance(self.length, int) and self.length <= self.window
        is_known = isinstance(self.key_length, int)
        lower, higher = (min, max) if is_known else (ops.minimum, ops.maximum)
        self.window = higher(lower(self.window, self.key_length), 1)
        self.block = self.length if self.is_one_block else self.window
        self.num_blocks = 1 if self.is_one_block else -(-self.length // self.window)
        self.num_sides = 1 if self.is_causal else 2
        self.span = self.block + self.num_sides * self.window

    def split_queries(self, x: tf.Tensor) -> tf.Tensor:
        return split_blocks(x, self.num_blocks, self.block)

    def join_queries(self, x: tf.Tensor) -> tf.Tensor:
        return join_blocks(x)[:, :, : self.length]  # without the padding

    def take_keys(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the keys or values of each span: `[B, H, S, D]` to `[B, H, N, C, D]`."""
        covered = self._cover(x, axis=2)
        if self.is_one_block:
            return ops.expand_dims(covered, 2)
        blocks = split_blocks(covered, self.num_blocks + self.num_sides, self.block)
        neighbors = [blocks[:, :, i : i + self.num_blocks] for i in range(1 + self.num_sides)]
        return ops.concatenate(neighbors, axis=3)

    def take_mask(self, mask: tf.Tensor) -> tf.Tensor:
        """Returns the mask of the spans, broadcastable to `[B, H, N, b, C]`."""
        shape = ops.shape(mask)
        mask = tf.broadcast_to(mask, (*shape[:3], self.key_length))
        if mask.shape[2] == 1:
            by_span = self.take_keys(ops.swapaxes(mask, 2, 3))  # [B, H, N, C, 1]
            return ops.swapaxes(by_span, 3, 4)
        rows = tf.broadcast_to(mask, (*shape[:2], self.length, self.key_length))
        rows = self.split_queries(self._cover(rows, axis=3))  # [B, H, N, b, covered keys]
        columns = self._starts() + ops.arange(self.span, dtype="int32")  # [N, C]
        return _take_columns(rows, columns)

    def in_window(self) -> tf.Tensor:
        """Returns whether each key of a span is in the window of each query, boolean `[b, C]`."""
        queries = ops.expand_dims(ops.arange(self.block, dtype="int32"), 1)
        distance = ops.arange(self.span, dtype="int32") - self.window - queries
        furthest = 0 if self.num_sides == 1 else self.window
        return ops.logical_and(distance >= -self.window, distance <= furthest)

    def weights_of_keys(self, weights: tf.Tensor) -> tf.Tensor:
        """Returns `[B, H, N, b, C]` as `[B, H, T, S]`, with zeros outside of the spans."""
        keys = ops.arange(self.key_length, dtype="int32") - self.offset + self.window
        columns = keys - self._starts()  # [N, S]
        is_inside = ops.logical_and(columns >= 0, columns < self.span)
        by_key = _take_columns(weights, ops.clip(columns, 0, self.span - 1))  # [B, H, N, b, S]
        return self.join_queries(by_key * ops.cast(ops.expand_dims(is_inside, 1), by_key.dtype))

    def _starts(self) -> tf.Tensor:
        """Returns the start of each span among the covered keys, `[N, 1]`."""
        return self.block * ops.expand_dims(ops.arange(self.num_blocks, dtype="int32"), 1)

    def _cover(self, x: tf.Tensor, axis: int) -> tf.Tensor:
        """Returns the keys of all spans, from a window before the first query; zeros outside."""
        blocks = self.num_blocks * self.block
        paddings = [[0, 0]] * 4
        paddings[axis] = [self.window, blocks - self.length + (self.num_sides - 1) * self.window]
        begin, size = [0] * 4, list(ops.shape(x))
        begin[axis], size[axis] = self.offset, blocks + self.num_sides * self.window
        return tf.slice(tf.pad(x, paddings), begin, size)


def _take_columns(x: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns columns `[N, K]` of N blocks `[B, H, N, b, C]` as `[B, H, N, b, K]`."""
    taken = tf.gather(tf.transpose(x, [2, 0, 1, 3, 4]), columns, axis=4, batch_dims=1)
    return tf.transpose(taken, [1, 2, 0, 3, 4])
