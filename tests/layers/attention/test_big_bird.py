"""BigBird's blocks."""

import numpy as np
import pytest

from keras_transformer.layers import BigBird
from tests.layers.attention.full_attention import (
    assert_equals_full,
    padding_mask,
    random_heads,
)

T = 11
NONE = {"block_size": 2, "num_global": 0, "num_window": 1, "num_random": 0}


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
def test_all_blocks_are_full_attention(settings, random):
    """By whatever way they were chosen: no key is counted twice."""
    mechanism = BigBird(**{**NONE, **settings})
    mask = padding_mask(11, 5, width=T)
    assert_equals_full(mechanism, *random_heads(random, T), attention_mask=mask)
    assert_equals_full(mechanism, *random_heads(random, T))


def pattern(seed=0, length=64, **settings):
    """Which keys each query sees."""
    mechanism = BigBird(**{**NONE, "block_size": 1, "num_random": 3, "seed": seed, **settings})
    heads = random_heads(np.random.default_rng(1), length)
    return mechanism(*heads, return_weights=True)[1].numpy()[0, 0] > 0


def test_as_many_blocks_are_seen_as_were_asked_for():
    seen = pattern(num_global=2, num_window=3)
    assert seen[:2].all()
    assert seen[:, :2].all()
    # Two global ones, three nearby and three at random; near the ends there are fewer neighbours.
    assert set(seen[3:-1].sum(axis=1)) == {8}
    assert seen[-1].sum() == 7


def test_random_blocks_are_those_of_the_seed():
    np.testing.assert_array_equal(pattern(), pattern())
    assert np.any(pattern() != pattern(seed=1))
    # They lie anywhere, and differ from query to query.
    assert pattern().sum(axis=0).max() < 14
    assert len({row.tobytes() for row in pattern()}) == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_window": 4}, "`num_window` .* must be odd; got 4. Use 3 or 5"),
        ({"num_random": -1}, "`num_random` must be a whole number of at least 0; got -1"),
        ({"seed": 2**32}, r"`seed` must be below 2\*\*32"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        BigBird(**settings)
