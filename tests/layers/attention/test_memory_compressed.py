"""Tests of memory-compressed attention."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MemoryCompressedAttention
from tests.layers.attention.full_attention import (
    B,
    D,
    H,
    assert_equals_full,
    padding_mask,
    random_heads,
)

T = 8


@pytest.mark.parametrize("use_causal_mask", [False, True])
def test_blocks_of_one_key_equal_full_attention(use_causal_mask, random):
    mechanism = MemoryCompressedAttention(factor=1)
    mechanism.build(*[(None, H, None, D)] * 3)
    for kernel in mechanism.trainable_variables:
        kernel.assign(np.eye(D)[None])
    assert_equals_full(
        mechanism,
        *random_heads(random, T),
        attention_mask=padding_mask(T, 5, size=T),
        use_causal_mask=use_causal_mask,
    )


def test_causal_mask_shows_only_complete_blocks(random):
    mechanism = MemoryCompressedAttention(factor=3)
    _, weights = mechanism(
        *random_heads(random, T), use_causal_mask=True, return_attention_scores=True
    )
    sums = tf.reshape(weights[..., :6], (B, H, T, 2, 3)).numpy().sum(axis=-1)
    assert not np.any(sums[:, :, :2])
    np.testing.assert_allclose(sums[:, :, 2:5], np.broadcast_to([1, 0], (B, H, 3, 2)), atol=1e-6)
    assert np.all(sums[:, :, 5:] > 0)
    assert not np.any(weights[..., 6:])  # the last block is incomplete
