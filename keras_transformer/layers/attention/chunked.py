"""Chunked attention: exact attention in memory that grows linearly with the length."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    MASKED_SCORE,
    AttentionInputs,
    Integer,
    at_least_float32,
    join_blocks,
    register_mechanism,
    split_blocks,
)


@register_mechanism("chunked")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ChunkedAttention(ScaledDotProductAttention):
    """Scaled dot-product attention in memory that grows with T + S, not with T·S.

    Queries and keys are split into chunks, and scores are computed for one pair of chunks at a
    time. The softmax is updated as more keys follow (Milakov and Gimelshein 2018, "Online
    normalizer calculation for softmax"); the gradient computes the scores again (Rabe and Staats
    2021, "Self-attention Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention"). With a
    causal mask, pairs of chunks that are masked entirely are left out.

    Results and gradients equal those of full attention. Attention weights take memory for T·S
    numbers, if they are returned.

    Args:
        chunk_size: Integer. Largest number of queries, and of keys, in a chunk. Default 512.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> ChunkedAttention(chunk_size=256)(states, states, states, use_causal_mask=True).shape
    (None, 4, None, 16)
    """

    def __init__(self, chunk_size: int = 512, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.chunk_size: int = require_positive_integer("chunk_size", chunk_size)

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        query, key = inputs.query, inputs.key
        pairs = _ChunkPairs(
            _Chunks(ops.shape(query)[2], self.chunk_size),
            _Chunks(ops.shape(key)[2], self.chunk_size),
            inputs.attention_mask,
            offset=inputs.query_offset,
            is_causal=inputs.use_causal_mask,
            rate=self.dropout,
            seed=self.dropout_layer.next_seed() if inputs.training and self.dropout else None,
        )
        context = _attend(pairs, query * query.shape[-1] ** -0.5, key, inputs.value)
        if not inputs.return_attention_scores:
            return context, None
        return context, super().compute_context(inputs._replace(training=False))[1]


class _Chunks:
    """An axis split into `count` chunks of equal `size`, at most `largest`; padded at the end."""

    def __init__(self, length: Integer, largest: int) -> None:
        self.length = length
        at_least = max if isinstance(length, int) else tf.maximum
        self.count = at_least(-(-length // largest), 1)
        self.size = at_least(-(-length // self.count), 1)  # equal sizes need little padding

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[B, H, T, D]` as `[N, B, H, c, D]`."""
        return ops.transpose(split_blocks(x, self.count, self.size), (2, 0, 1, 3, 4))

    def join(self, chunks: tf.Tensor) -> tf.Tensor:
        """Returns `[N, B, H, c, D]` as `[B, H, T, D]`, without the padding."""
        return join_blocks(ops.transpose(chunks, (1, 2, 0, 3, 4)))[:, :, : self.length]


@dataclasses.dataclass
class _ChunkPairs:
    """Pairs of a chunk of queries and a chunk of keys: which are needed, and their scores."""

    queries: _Chunks
    keys: _Chunks
    mask: tf.Tensor | None  # boolean, broadcastable to [B, H, T, S]
    offset: Integer  # position of the first query among the keys
    is_causal: bool
    rate: float  # of dropout
    seed: tf.Tensor | None  # of all dropout of a call, int32 [2]; None for no dropout

    def __post_init__(self) -> None:
        if self.mask is not None:
            self.mask = self._split_mask(self.mask)

    def end_of_keys(self, i: tf.Tensor) -> Integer:
        """Returns the number of chunks of keys up to the last one that queries `i` may see."""
        if not self.is_causal:
            return self.keys.count
        end = self.offset + (i + 1) * self.queries.size  # after the last query's position
        return tf.minimum(-(-end // self.keys.size), self.keys.count)

    def start_of_queries(self, j: tf.Tensor) -> Integer:
        """Returns the index of the first chunk of queries that may see keys `j`."""
        if not self.is_causal:
            return 0
        return tf.maximum((j * self.keys.size - self.offset) // self.queries.size, 0)

    def scores(self, query: tf.Tensor, key: tf.Tensor, i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        """Returns the masked scores `[B, H, c, c]` of chunk `i` of queries and `j` of keys."""
        scores = at_least_float32(tf.matmul(query, key, transpose_b=True))
        keys = j * self.keys.size + tf.range(self.keys.size)
        visible = keys < self.keys.length  # [c]
        if self.is_causal:
            queries = self.offset + i * self.queries.size + tf.range(self.queries.size)
            visible &= keys <= queries[:, None]  # [c, c]
        if self.mask is not None:
            # An axis of size 1 holds for all chunks.
            row = tf.gather(self.mask, tf.minimum(i, tf.shape(self.mask)[0] - 1))
            visible &= tf.gather(row, tf.minimum(j, tf.shape(self.mask)[1] - 1))
        masked = tf.where(visible, scores, tf.cast(MASKED_SCORE, scores.dtype))
        return tf.ensure_shape(masked, scores.shape)

    def dropout(
        self, i: tf.Tensor, j: tf.Tensor, like: tf.Tensor
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns a function that applies dropout, with a mask that depends only on `i` and `j`."""
        if self.seed is None:
            return lambda weights: weights
        seed = tf.random.experimental.stateless_fold_in(self.seed, i * self.keys.count + j)
        is_kept = tf.random.stateless_uniform(tf.shape(like), seed) >= self.rate
        factors = tf.cast(is_kept, like.dtype) / (1 - self.rate)
        return lambda weights: weights * factors

    def _split_mask(self, mask: tf.Tensor) -> tf.Tensor:
        """Returns `[B, H, T, S]` as `[N, K, B, H, c, c]`; an axis of size 1 becomes two of 1."""
        batch_size, num_heads, *lengths = ops.shape(mask)
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
        shape = (batch_size, num_heads, counts[0], sizes[0], counts[1], sizes[1])
        return ops.transpose(ops.reshape(tf.pad(mask, paddings), shape), (2, 4, 0, 1, 3, 5))


def _attend(pairs: _ChunkPairs, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Returns the context `[B, H, T, D]` of scaled queries, keys and values.

    The gradient is written out: it needs the inputs, the context and one number for each query.
    """

    @tf.custom_gradient
    def attend(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> Any:
        contexts, normalizers = _forward(pairs, queries, keys, values)

        def gradients(upstream: tf.Tensor) -> Any:
            return _backward(pairs, queries, keys, values, contexts, normalizers, upstream)

        return contexts, gradients

    split = pairs.queries.split(query), pairs.keys.split(key), pairs.keys.split(value)
    return pairs.queries.join(attend(*split))


def _forward(
    pairs: _ChunkPairs, queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns contexts `[N, B, H, c, D]` and log-sums of exponentials `[N, B, H, c, 1]`."""
    zero_sums = at_least_float32(tf.zeros_like(queries[0, ..., :1]))  # [B, H, c, 1]
    zero_context = tf.zeros((*ops.shape(zero_sums)[:3], values.shape[-1]), zero_sums.dtype)
    # Above the masked scores, so that their exp() is 0, and below every other score.
    lowest = zero_sums + MASKED_SCORE / 2

    def for_queries(i: tf.Tensor, contexts: Any, normalizers: Any) -> tuple[Any, ...]:
        query = tf.gather(queries, i)  # [B, H, c, D]

        def for_keys(
            j: tf.Tensor, highest: tf.Tensor, total: tf.Tensor, context: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            scores = pairs.scores(query, tf.gather(keys, j), i, j)
            higher = tf.maximum(highest, tf.reduce_max(scores, axis=-1, keepdims=True))
            shrink = tf.exp(highest - higher)
            weights = tf.exp(scores - higher)  # [B, H, c, c]
            total = total * shrink + tf.reduce_sum(weights, axis=-1, keepdims=True)
            weights = tf.cast(pairs.dropout(i, j, weights)(weights), values.dtype)
            added = at_least_float32(tf.matmul(weights, tf.gather(values, j)))
            return higher, total, context * shrink + added

        state = _loop(0, pairs.end_of_keys(i), for_keys, lowest, zero_sums, zero_context)
        highest, total, context = state
        sees_any = total > 0
        total = tf.where(sees_any, total, tf.ones_like(total))
        normalizer = tf.where(sees_any, highest + tf.math.log(total), zero_sums)
        context = tf.cast(context / total, values.dtype)
        return contexts.write(i, context), normalizers.write(i, normalizer)

    count = pairs.queries.count
    arrays = _array(count, tf.cast(zero_context, values.dtype)), _array(count, zero_sums)
    contexts, normalizers = _loop(0, count, for_queries, *arrays)
    return contexts.stack(), normalizers.stack()


def _backward(
    pairs: _ChunkPairs,
    queries: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    contexts: tf.Tensor,
    normalizers: tf.Tensor,
    upstream: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the gradients of queries, keys and values from those of the contexts."""
    # The softmax is invariant to a common offset, so this mean of the gradients is subtracted.
    mean_gradient = tf.reduce_sum(at_least_float32(upstream * contexts), axis=-1, keepdims=True)
    zero_query = at_least_float32(tf.zeros_like(queries))
    zero_key, zero_value = (at_least_float32(tf.zeros_like(x[0])) for x in (keys, values))

    def for_keys(
        j: tf.Tensor, query_gradients: Any, key_gradients: Any, value_gradients: Any
    ) -> tuple[Any, ...]:
        key, value = tf.gather(keys, j), tf.gather(values, j)

        def for_queries(
            i: tf.Tensor, query_gradients: Any, key_gradient: tf.Tensor, value_gradient: tf.Tensor
        ) -> tuple[Any, ...]:
            query, context_gradient = tf.gather(queries, i), tf.gather(upstream, i)
            scores = pairs.scores(query, key, i, j)
            weights = tf.exp(scores - tf.gather(normalizers, i))  # [B, H, c, c]
            drop = pairs.dropout(i, j, weights)
            of_weights = tf.matmul(context_gradient, value, transpose_b=True)
            of_weights = drop(at_least_float32(of_weights))
            of_scores = weights * (of_weights - tf.gather(mean_gradient, i))
            of_scores = tf.cast(of_scores, query.dtype)
            dropped = tf.cast(drop(weights), value.dtype)
            of_value = tf.matmul(dropped, context_gradient, transpose_a=True)
            value_gradient += at_least_float32(of_value)
            key_gradient += at_least_float32(tf.matmul(of_scores, query, transpose_a=True))
            of_query = query_gradients.read(i) + at_least_float32(tf.matmul(of_scores, key))
            return query_gradients.write(i, of_query), key_gradient, value_gradient

        start, end = pairs.start_of_queries(j), pairs.queries.count
        state = query_gradients, zero_key, zero_value
        query_gradients, key_gradient, value_gradient = _loop(start, end, for_queries, *state)
        key_gradients = key_gradients.write(j, tf.cast(key_gradient, key.dtype))
        value_gradients = value_gradients.write(j, tf.cast(value_gradient, value.dtype))
        return query_gradients, key_gradients, value_gradients

    count = pairs.keys.count
    query_gradients = _array(pairs.queries.count, zero_query[0]).unstack(zero_query)
    key_and_value_gradients = _array(count, keys[0]), _array(count, values[0])
    gradients = _loop(0, count, for_keys, query_gradients, *key_and_value_gradients)
    of_queries, of_keys, of_values = (array.stack() for array in gradients)
    return tf.cast(of_queries, queries.dtype), of_keys, of_values


def _loop(start: Integer, end: Integer, body: Callable[..., Any], *state: Any) -> list[Any]:
    """Returns the state after `body(i, *state)` for each i, one at a time to save memory."""
    _, *result = tf.while_loop(
        lambda i, *_: i < end,
        lambda i, *state: (i + 1, *body(i, *state)),
        (tf.convert_to_tensor(start, tf.int32), *state),
        parallel_iterations=1,
    )
    return result


def _array(count: Integer, like: tf.Tensor) -> tf.TensorArray:
    """Returns an array of `count` tensors with the shape and dtype of `like`."""
    return tf.TensorArray(like.dtype, count, element_shape=like.shape, clear_after_read=False)
