"""Softmax attention in chunks: what is gathered as keys come by, and its gradient."""

import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.softmax_attention import HIDDEN, full_precision


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
