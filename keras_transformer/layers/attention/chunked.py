"""Exact attention that never holds all scores at once."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import HIDDEN, full_precision, register_mechanism


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


def attend_in_chunks(chunks, query, key, value):
    """Context `[B, H, T, D]` of queries `[B, H, T, D]`, scaled already, keys and values.

    The gradient is written out, so that beside its inputs no more than the context and a number for
    each query is kept for it.

    Args:
        chunks: the `MeetingChunks` that the lengths are cut into.
        query, key, value: `[B, H, T|S, D]`.
    """

    @tf.custom_gradient
    def attend(queries, keys, values):
        contexts, normalizers = _forward(chunks, queries, keys, values)

        def gradients(upstream):
            return _backward(chunks, queries, keys, values, contexts, normalizers, upstream)

        return contexts, gradients

    cut = chunks.queries.cut(query), chunks.keys.cut(key), chunks.keys.cut(value)
    return chunks.queries.join(attend(*cut))


def _forward(chunks, queries, keys, values):
    """Contexts `[N, B, H, c, D]`, and logarithms of sums of exponentials `[N, B, H, c, 1]`."""
    rows = full_precision(tf.zeros_like(queries[0, ..., :1]))  # [B, H, c, 1]
    nothing = full_precision(tf.zeros((*ops.shape(rows)[:3], values.shape[-1]), values.dtype))
    # Higher than what is hidden, so that exp() of that is 0; lower than any score.
    lowest = rows + HIDDEN / 2

    def for_queries(i, contexts, normalizers):
        query = tf.gather(queries, i)  # [B, H, c, D]

        def for_keys(j, highest, total, context):
            scores = chunks.scores(query, tf.gather(keys, j), i, j)
            higher = tf.maximum(highest, tf.reduce_max(scores, axis=-1, keepdims=True))
            shrink = tf.exp(highest - higher)
            weights = tf.exp(scores - higher)  # [B, H, c, c]
            total = total * shrink + tf.reduce_sum(weights, axis=-1, keepdims=True)
            weights = tf.cast(chunks.dropout(i, j, weights)(weights), values.dtype)
            mixed = full_precision(tf.matmul(weights, tf.gather(values, j)))
            return higher, total, context * shrink + mixed

        state = _loop(0, chunks.keys_for(i), for_keys, lowest, rows, nothing)
        highest, total, context = state
        sees_any = total > 0
        total = tf.where(sees_any, total, tf.ones_like(total))
        normalizer = tf.where(sees_any, highest + tf.math.log(total), rows)
        context = tf.cast(context / total, values.dtype)
        return contexts.write(i, context), normalizers.write(i, normalizer)

    count = chunks.queries.count
    arrays = _array(count, tf.cast(nothing, values.dtype)), _array(count, rows)
    contexts, normalizers = _loop(0, count, for_queries, *arrays)
    return contexts.stack(), normalizers.stack()


def _backward(chunks, queries, keys, values, contexts, normalizers, upstream):
    """Gradients of queries, keys and values, from those of the contexts, `upstream`."""
    # What each query's weights would gain or lose together: of a softmax only differences count.
    shared = tf.reduce_sum(full_precision(upstream * contexts), axis=-1, keepdims=True)
    no_query = full_precision(tf.zeros_like(queries))
    no_key, no_value = (full_precision(tf.zeros_like(x[0])) for x in (keys, values))

    def for_keys(j, query_gradients, key_gradients, value_gradients):
        key, value = tf.gather(keys, j), tf.gather(values, j)

        def for_queries(i, query_gradients, key_gradient, value_gradient):
            query, arriving = tf.gather(queries, i), tf.gather(upstream, i)
            scores = chunks.scores(query, key, i, j)
            weights = tf.exp(scores - tf.gather(normalizers, i))  # [B, H, c, c]
            drop = chunks.dropout(i, j, weights)
            to_weights = drop(full_precision(tf.matmul(arriving, value, transpose_b=True)))
            to_scores = tf.cast(weights * (to_weights - tf.gather(shared, i)), query.dtype)
            dropped = tf.cast(drop(weights), value.dtype)
            value_gradient += full_precision(tf.matmul(dropped, arriving, transpose_a=True))
            key_gradient += full_precision(tf.matmul(to_scores, query, transpose_a=True))
            query_gradient = query_gradients.read(i) + full_precision(tf.matmul(to_scores, key))
            return query_gradients.write(i, query_gradient), key_gradient, value_gradient

        query_gradients, key_gradient, value_gradient = _loop(
            chunks.queries_for(j), chunks.queries.count, for_queries,
            query_gradients, no_key, no_value,
        )  # fmt: skip
        return (
            query_gradients,
            key_gradients.write(j, tf.cast(key_gradient, key.dtype)),
            value_gradients.write(j, tf.cast(value_gradient, value.dtype)),
        )

    gradients = _loop(
        0,
        chunks.keys.count,
        for_keys,
        _array(chunks.queries.count, no_query[0]).unstack(no_query),
        _array(chunks.keys.count, keys[0]),
        _array(chunks.keys.count, values[0]),
    )
    to_queries, to_keys, to_values = (array.stack() for array in gradients)
    return tf.cast(to_queries, queries.dtype), to_keys, to_values


def _loop(start, end, body, *state):
    """The state after `body(number, *state)` for each number: one at a time, to save memory."""
    _, *state = tf.while_loop(
        lambda number, *_: number < end,
        lambda number, *state: (number + 1, *body(number, *state)),
        (tf.convert_to_tensor(start, tf.int32), *state),
        parallel_iterations=1,
    )
    return state


def _array(count, like):
    """An array with so many places for tensors of one shape and type."""
    return tf.TensorArray(like.dtype, count, element_shape=like.shape, clear_after_read=False)


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


@register_mechanism("chunked")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ChunkedAttention(ScaledDotProductAttention):
    """What `ScaledDotProductAttention` gives, in memory that grows with T + S, not with T·S.

    Queries and keys are cut into chunks, and two chunks at a time meet. The softmax is kept up to
    date as more keys come (Milakov and Gimelshein 2018, "Online normalizer calculation for
    softmax"); for the gradient the scores are computed anew (Rabe and Staats 2021, "Self-attention
    Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention"). In causal use, chunks that lie
    in the future are left out.

    Values and gradients are those of full attention whatever the size of the chunks. Only the
    weights, if they are asked for, are T·S numbers, and a mask is as large as it is given.

    Args:
        chunk: queries, and keys, in a chunk at most. Smaller ones take less memory and more time.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = ChunkedAttention(chunk=256)(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).output_shape
    (None, 4, None, 16)
    """

    def __init__(self, chunk=512, **kwargs):
        super().__init__(**kwargs)
        self.chunk = require_positive_integer("chunk", chunk)

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
        seed = None
        if training and self.dropout:
            # The seeds are int64, for GPUs; XLA wants int32.
            state = self.dropout_layer.seed_generator.next()
            seed = tf.cast(tf.math.floormod(state, tf.int32.max - 1), tf.int32)
        chunks = MeetingChunks(
            Chunks(ops.shape(query)[2], self.chunk),
            Chunks(ops.shape(key)[2], self.chunk),
            attention_mask,
            offset=query_offset,
            is_causal=use_causal_mask,
            rate=self.dropout,
            seed=seed,
        )
        context = attend_in_chunks(chunks, query * query.shape[-1] ** -0.5, key, value)
        if not return_attention_scores:
            return context
        _, weights = super().call(
            query, key, value, attention_mask, query_offset, use_causal_mask, True, training=False
        )
        return context, weights

    def get_config(self):
        return {**super().get_config(), "chunk": self.chunk}
