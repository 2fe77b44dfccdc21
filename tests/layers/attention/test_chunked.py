"""Tests of chunked attention against full attention."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import ChunkedAttention, ScaledDotProductAttention
from tests.layers.attention.full_attention import B, H, assert_equals_full, random_heads

T, S = 11, 8


def masks(random):
    """Returns masks of every shape that can be broadcast, with a query without visible keys."""
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


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 100])
def test_values_and_gradients_equal_full_attention(chunk_size, random):
    """Queries and keys have different lengths, with all masks, and causal with an offset."""
    upstream = random_heads(random, T, count=1)[0]
    inputs = [*random_heads(random, T, count=1), *random_heads(random, S, count=2)]
    cases = [{"attention_mask": mask} for mask in masks(random)]
    cases += [{**case, "use_causal_mask": True, "query_offset": offset} for case, offset in
             ((cases[0], 0), (cases[1], 2))]  # fmt: skip
    for case in cases:
        expected = context_and_gradients(ScaledDotProductAttention(), inputs, upstream, **case)
        found = context_and_gradients(ChunkedAttention(chunk_size), inputs, upstream, **case)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_unknown_lengths_equal_full_attention(random):
    inputs = random_heads(random, T)
    assert_equals_full(ChunkedAttention(4), *inputs, use_causal_mask=True)
    mask = tf.constant(random.random((B, 1, T, T)) < 0.6)
    unknown = tf.TensorSpec([None, None, None, None], tf.bool)
    in_graph = tf.function(
        lambda mask: ChunkedAttention(4)(*inputs, mask), input_signature=[unknown]
    )
    for each in (mask, mask[:, :, :1]):
        expected = ScaledDotProductAttention()(*inputs, each)
        np.testing.assert_allclose(in_graph(each), expected, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_gradient_uses_the_dropout_mask_of_the_result(jit, random):
    """The context is linear in the values and changes with the queries by its gradient."""
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

    context, query_gradient, _, value_gradient = run(query)
    assert loss(context) == pytest.approx(float(tf.reduce_sum(value * value_gradient)))
    losses = []
    for sign in (1, -1):
        state.assign(start)
        losses.append(loss(run(query + sign * 1e-4 * step)[0]))
    expected = float(tf.reduce_sum(query_gradient * step))
    assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(expected, rel=1e-5)
    assert loss(run(query)[0]) != pytest.approx(loss(context))  # each call draws a new mask


def test_dropout_preserves_the_mean(random):
    query, key, value = random_heads(random, T)
    expected = ScaledDotProductAttention()(query, key, value)
    many = [tf.repeat(x, 3000, axis=0) for x in (query, key, value)]
    context = ChunkedAttention(4, dropout=0.3)(*many, training=True)
    mean = tf.reduce_mean(tf.reshape(context, (B, 3000, *expected.shape[1:])), axis=1)
    np.testing.assert_allclose(mean, expected, atol=0.05)


def test_dropout_mask_differs_between_chunks(random):
    """With an identity as values, the context shows which weights were dropped."""
    heads = tf.zeros((1, 8, 6, 6))
    context = ChunkedAttention(3, dropout=0.5)(heads, heads, heads + tf.eye(6), training=True)
    dropped = context.numpy() == 0  # [1, 8, 6, 6]
    chunks = {dropped[:, :, i : i + 3, j : j + 3].tobytes() for i in (0, 3) for j in (0, 3)}
    assert len(chunks) == 4


def test_chunk_size_below_one_raises_value_error():
    with pytest.raises(ValueError, match=r"`chunk_size`.*at least 1; got 0"):
        ChunkedAttention(0)
