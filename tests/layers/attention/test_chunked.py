"""Chunked attention is full attention, whatever the chunks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import ChunkedAttention, ScaledDotProductAttention
from tests.layers.attention.full_attention import B, H, assert_equals_full, random_heads

T, S = 11, 8


def masks(random):
    """Masks of every shape that can be broadcast, with a query that sees nothing."""
    whole = random.random((B, H, T, S)) < 0.6
    whole[0, 0, 3] = False
    return [
        None,
        *(
            tf.constant(whole[:b, :h, :t, :s])
            for b, h, t, s in [(B, H, T, S), (B, 1, 1, S), (1, 1, T, S), (1, H, T, 1), (1, 1, 1, 1)]
        ),
    ]


def context_and_gradients(mechanism, inputs, upstream, **arguments):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        context = mechanism(*inputs, **arguments)
    return context, *tape.gradient(context, inputs, output_gradients=upstream)


@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_values_and_gradients_equal_full_attention(chunk, random):
    """Across two lengths, under all kinds of masks, and in causal use after an offset."""
    upstream = random_heads(random, T, count=1)[0]
    inputs = [*random_heads(random, T, count=1), *random_heads(random, S, count=2)]
    ways = [{"attention_mask": mask} for mask in masks(random)]
    ways += [{**way, "use_causal_mask": True, "query_offset": offset} for way, offset in
             ((ways[0], 0), (ways[1], 2))]  # fmt: skip
    for way in ways:
        expected = context_and_gradients(ScaledDotProductAttention(), inputs, upstream, **way)
        found = context_and_gradients(ChunkedAttention(chunk), inputs, upstream, **way)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_lengths_need_not_be_known_beforehand(random):
    inputs = random_heads(random, T)
    assert_equals_full(ChunkedAttention(4), *inputs, use_causal_mask=True)
    mask = tf.constant(random.random((B, 1, T, T)) < 0.6)
    unknown = tf.TensorSpec([None, None, None, None], tf.bool)
    in_graph = tf.function(
        lambda mask: ChunkedAttention(4)(*inputs, mask), input_signature=[unknown]
    )
    for given in (mask, mask[:, :, :1]):
        expected = ScaledDotProductAttention()(*inputs, given)
        np.testing.assert_allclose(in_graph(given), expected, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_dropout_is_the_same_in_the_gradient(jit, random):
    """The context is linear in the values, and changes with the queries as the gradient says."""
    mechanism = ChunkedAttention(4, dropout=0.4)
    query, key, value, upstream, step = (
        tf.cast(x, tf.float64) for x in random_heads(random, T, count=5)
    )
    mechanism = ChunkedAttention(4, dropout=0.4, dtype="float64")
    mechanism(query, key, value)
    (state,) = mechanism.variables
    start = state.numpy()

    @tf.function(jit_compile=jit)
    def run(query):
        return context_and_gradients(mechanism, [query, key, value], upstream, training=True)

    def loss(context):
        return float(tf.reduce_sum(context * upstream))

    context, to_query, _, to_value = run(query)
    assert loss(context) == pytest.approx(float(tf.reduce_sum(value * to_value)))
    losses = []
    for sign in (1, -1):
        state.assign(start)
        losses.append(loss(run(query + sign * 1e-4 * step)[0]))
    expected = float(tf.reduce_sum(to_query * step))
    assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(expected, rel=1e-5)
    assert loss(run(query)[0]) != pytest.approx(loss(context))  # drawn anew in each call


def test_dropout_keeps_the_mean(random):
    query, key, value = random_heads(random, T)
    expected = ScaledDotProductAttention()(query, key, value)
    many = [tf.repeat(x, 3000, axis=0) for x in (query, key, value)]
    context = ChunkedAttention(4, dropout=0.3)(*many, training=True)
    mean = tf.reduce_mean(tf.reshape(context, (B, 3000, *expected.shape[1:])), axis=1)
    np.testing.assert_allclose(mean, expected, atol=0.05)


def test_dropout_differs_from_chunk_to_chunk(random):
    """Values that are an identity show which weights have been dropped."""
    heads = tf.zeros((1, 8, 6, 6))
    context = ChunkedAttention(3, dropout=0.5)(heads, heads, heads + tf.eye(6), training=True)
    dropped = context.numpy() == 0  # [1, 8, 6, 6]
    chunks = {dropped[:, :, i : i + 3, j : j + 3].tobytes() for i in (0, 3) for j in (0, 3)}
    assert len(chunks) == 4


def test_chunk_must_be_a_number():
    with pytest.raises(ValueError, match="`chunk` must be a whole number of at least 1; got 0"):
        ChunkedAttention(0)
