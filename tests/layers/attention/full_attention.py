"""Comparison of the mechanisms that save time or memory with full attention."""

import numpy as np
import tensorflow as tf

from keras_transformer.layers import ScaledDotProductAttention

B, H, D = 2, 3, 4


def random_heads(random, length, count=3):
    """Returns queries, keys and values `[B, H, length, D]`."""
    return [tf.constant(random.normal(0, 1, (B, H, length, D)), tf.float32) for _ in range(count)]


def padding_mask(*lengths, size):
    """Returns the key mask `[B, 1, 1, S]` of rows of these lengths."""
    return tf.constant((np.arange(size) < np.array(lengths)[:, None])[:, None, None])


def assert_equals_full(mechanism, query, key, value, atol=1e-5, **arguments):
    """Compares context and weights, eagerly and in a graph with unknown lengths."""
    expected = ScaledDotProductAttention()(
        query, key, value, return_attention_scores=True, **arguments
    )
    heads = tf.TensorSpec([None, H, None, D])
    in_graph = tf.function(
        lambda *arrays: mechanism(*arrays, return_attention_scores=True, **arguments),
        input_signature=[heads] * 3,
    )
    for context, weights in (
        mechanism(query, key, value, return_attention_scores=True, **arguments),
        in_graph(query, key, value),
    ):
        np.testing.assert_allclose(context, expected[0], atol=atol)
        np.testing.assert_allclose(weights, expected[1], atol=atol)
