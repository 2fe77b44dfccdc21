import collections
import hashlib
import itertools
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.batching.batches import shuffled

WORD = 2**64 - 1


def philox_4x64_10(counter, key):
    """Salmon et al. 2011, section 3.3, in plain Python."""
    c, k = list(counter), list(key)
    for round_number in range(10):
        if round_number:
            k = [(k[0] + 0x9E3779B97F4A7C15) & WORD, (k[1] + 0xBB67AE8584CAA73B) & WORD]
        first, second = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(second >> 64) ^ c[1] ^ k[0], second & WORD, (first >> 64) ^ c[3] ^ k[1], first & WORD]
    return c


def test_philox_of_this_test_gives_the_known_answers():
    # From the test vectors of the authors' Random123 library.
    assert philox_4x64_10([0] * 4, [0] * 2) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]


def test_is_the_order_of_philox_draws_everywhere():
    key = (2026, "examples", 3, 1)
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    words = [int.from_bytes(digest[first : first + 8], "little") for first in (0, 8)]
    draws = [draw for block in range(1, 6) for draw in philox_4x64_10([block, 0, 0, 0], words)]
    assert shuffled(20, *key).tolist() == sorted(range(20), key=draws.__getitem__)


@given(st.integers(0, 500), st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_has_every_number_once(count, seed, epoch):
    assert sorted(shuffled(count, seed, epoch).tolist()) == list(range(count))


def test_other_keys_give_other_orders():
    keys = [(1, "a", 0), (1, "a", 1), (2, "a", 0), (1, "b", 0), (11, "a", 0), (1, "a", 0, 0)]
    orders = [shuffled(100, *key) for key in keys]
    for one, other in itertools.combinations(orders, 2):
        # Two random orders agree in one place on average, and hardly ever in eight.
        assert np.count_nonzero(one == other) < 8


def test_all_orders_are_equally_likely():
    counts = collections.Counter(tuple(shuffled(3, 5, epoch).tolist()) for epoch in range(6000))
    assert len(counts) == 6
    assert max(abs(count - 1000) for count in counts.values()) < 150  # five standard deviations
