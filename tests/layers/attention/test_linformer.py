"""Tests of Linformer attention."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import LinformerAttention, MultiHeadAttention
from tests.layers.attention.full_attention import (
    D,
    H,
    assert_equals_full,
    padding_mask,
    random_heads,
)

T = 9


def with_identity_projections(length):
    mechanism = LinformerAttention(max_length=length, rank=length)
    mechanism.build(*[(None, H, None, D)] * 3)
    for projection in mechanism.trainable_variables:
        projection.assign(np.eye(length))
    return mechanism


def test_identity_projections_equal_full_attention(random):
    assert_equals_full(with_identity_projections(T), *random_heads(random, T))


def test_masked_keys_count_as_zeros(random):
    """Their projections have the score 0, which has a share of the softmax."""
    query, key, value = random_heads(random, T)
    mask = padding_mask(T, 4, size=T)
    context, weights = with_identity_projections(T)(
        query, key, value, mask, return_attention_scores=True
    )
    exponentials = np.exp(np.einsum("htd,hsd->hts", query[1], key[1]) / np.sqrt(D))[..., :4]
    expected = exponentials / (exponentials.sum(axis=-1, keepdims=True) + T - 4)
    np.testing.assert_allclose(weights[1, ..., :4], expected, atol=1e-5)
    assert not np.any(weights[1, ..., 4:])
    np.testing.assert_allclose(context, np.matmul(weights, value), atol=1e-5)


def test_more_keys_than_max_length_raise(random):
    layer = MultiHeadAttention(2, mechanism=LinformerAttention(max_length=5, rank=2))
    with pytest.raises(ValueError, match=r"'linformer'.*5 keys.*: 6"):
        layer(np.zeros((1, 6, 4), "float32"))
    in_graph = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 4])])
    assert in_graph(np.zeros((1, 5, 4), "float32")).shape == (1, 5, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="5 keys"):
        in_graph(np.zeros((1, 6, 4), "float32"))
