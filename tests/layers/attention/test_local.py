"""Tests of local attention against full attention with a band mask."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import LocalAttention
from tests.layers.attention.full_attention import (
    B,
    assert_equals_full,
    padding_mask,
    random_heads,
)

T = 11


@pytest.mark.parametrize("window", [T - 1, T, 500])
@pytest.mark.parametrize("use_causal_mask", [False, True])
def test_window_as_long_as_the_text_equals_full_attention(window, use_causal_mask, random):
    mask = padding_mask(7, 11, size=T)
    assert_equals_full(
        LocalAttention(window),
        *random_heads(random, T),
        attention_mask=mask,
        use_causal_mask=use_causal_mask,
    )


@pytest.mark.parametrize("window", [1, 3, 4])
@pytest.mark.parametrize("rows", [1, T])
def test_narrow_window_equals_a_band_mask(window, rows, random):
    mask = random.random((B, 1, rows, T)) < 0.7
    band = abs(np.arange(T) - np.arange(T)[:, None]) <= window
    query, key, value = random_heads(random, T)
    from_band = LocalAttention(500)(query, key, value, tf.constant(mask & band))
    np.testing.assert_allclose(
        LocalAttention(window)(query, key, value, tf.constant(mask)), from_band, atol=1e-5
    )


def test_window_that_is_no_integer_raises_value_error():
    with pytest.raises(ValueError, match=r"`window`.*at least 1; got 2.0"):
        LocalAttention(2.0)
