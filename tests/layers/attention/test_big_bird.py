"""Tests of BigBird attention."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import BigBirdAttention
from tests.layers.attention.full_attention import (
    assert_equals_full,
    padding_mask,
    random_heads,
)

T = 11
NONE = {"block_size": 2, "num_global": 0, "num_window": 1, "num_random": 0}


@pytest.fixture
def blocks(monkeypatch):
    """Splits even short texts into blocks."""
    monkeypatch.setattr(BigBirdAttention, "_sees_all", lambda self, length: False)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_window": 11},
        {"num_global": 6},
        {"num_global": 9},
        {"num_random": 5},
        {"num_global": 2, "num_window": 5, "num_random": 7},
        {"block_size": 64},
    ],
    ids=str,
)
def test_all_blocks_equal_full_attention(settings, random, blocks):
    """A block that is chosen for several reasons is counted once."""
    mechanism = BigBirdAttention(**{**NONE, **settings})
    mask = padding_mask(11, 5, size=T)
    assert_equals_full(mechanism, *random_heads(random, T), attention_mask=mask)
    assert_equals_full(mechanism, *random_heads(random, T))


# All blocks see each other up to 2 + 1 + 1 + 2 blocks of 3.
@pytest.mark.parametrize("length", [1, 3, 17, 18, 19, 40])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "dynamic"])
def test_short_text_equals_attention_with_blocks(length, is_known, random, monkeypatch):
    mechanism = BigBirdAttention(block_size=3, num_global=2, num_window=3, num_random=2)
    heads = random_heads(random, length)
    mask = padding_mask(length, max(1, length // 2), size=length)
    shape = [None, *heads[0].shape[1:2], length if is_known else None, heads[0].shape[-1]]
    specs = [tf.TensorSpec(shape, heads[0].dtype)] * 3
    specs.append(tf.TensorSpec([None, 1, 1, length if is_known else None], tf.bool))

    @tf.function(input_signature=specs)
    def attend(query, key, value, mask):
        return mechanism(query, key, value, attention_mask=mask, return_attention_scores=True)

    found = attend(*heads, mask)
    monkeypatch.setattr(BigBirdAttention, "_sees_all", lambda self, length: False)
    expected = mechanism(*heads, attention_mask=mask, return_attention_scores=True)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_short_text_is_not_split_into_blocks(random, monkeypatch):
    monkeypatch.delattr(BigBirdAttention, "_attend_to_blocks")
    mechanism = BigBirdAttention(block_size=3, num_global=2, num_window=3, num_random=2)
    mechanism(*random_heads(random, 18))
    with pytest.raises(AttributeError, match="_attend_to_blocks"):
        mechanism(*random_heads(random, 19))


def pattern(seed=0, length=64, **settings):
    """Returns whether each query sees each key."""
    mechanism = BigBirdAttention(
        **{**NONE, "block_size": 1, "num_random": 3, "seed": seed, **settings}
    )
    heads = random_heads(np.random.default_rng(1), length)
    return mechanism(*heads, return_attention_scores=True)[1].numpy()[0, 0] > 0


def test_query_sees_the_configured_number_of_blocks():
    seen = pattern(num_global=2, num_window=3)
    assert seen[:2].all()
    assert seen[:, :2].all()
    # Two global, three neighboring and three random blocks; fewer neighbors at the end.
    assert set(seen[3:-1].sum(axis=1)) == {8}
    assert seen[-1].sum() == 7


def test_random_blocks_depend_on_seed_and_query():
    np.testing.assert_array_equal(pattern(), pattern())
    assert np.any(pattern() != pattern(seed=1))
    # They are spread over all keys, and differ between queries.
    assert pattern().sum(axis=0).max() < 14
    assert len({row.tobytes() for row in pattern()}) == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_window": 4}, r"`num_window` must be odd.*got 4.*3 or 5"),
        ({"num_random": -1}, r"`num_random`.*at least 0; got -1"),
        ({"seed": 2**32}, r"`seed`.*below 2\*\*32"),
    ],
)
def test_invalid_arguments_raise_value_error(settings, message):
    with pytest.raises(ValueError, match=message):
        BigBirdAttention(**settings)
