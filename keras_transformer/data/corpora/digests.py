"""Short digests of examples, to find equal ones without holding their texts."""

import hashlib

import numpy as np

DIGEST_BYTES = 8
# 64 MiB of digests; three times that for a moment, while two sorted runs are merged.
MAX_DISTINCT = 1 << 23


def example_digest(example):
    """Returns 8 bytes that stand for an example: equal for equal examples, on every machine.

    Two different examples among ten million share one with a probability of about 3e-6.
    """
    # NUL is taken out of every text, so it can only stand between two of them.
    text = "\0".join(example).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def digest_array(digests):
    """Returns the joined digests in `digests`, a bytearray, as a new array of integers."""
    return np.frombuffer(bytes(digests), dtype="<u8")


def contains(sorted_digests, digests):
    """Returns two arrays: whether each of `digests` is in `sorted_digests`, and where if so."""
    places = np.searchsorted(sorted_digests, digests)
    is_inside = places < len(sorted_digests)
    is_inside[is_inside] = sorted_digests[places[is_inside]] == digests[is_inside]
    return is_inside, places


class DuplicateCounter:
    """Counts examples that came before, in bounded memory.

    It is exact up to `max_distinct` different examples. Beyond that no new ones are remembered,
    `is_exact` turns False, and the count is a lower bound.

    Args:
        max_distinct: How many digests of 8 bytes to remember at most.
        block: How many examples to gather before they are looked up together.

    Example:

    >>> counter = DuplicateCounter()
    >>> for word in ["one", "two", "one", "one"]:
    ...     counter.add((word,))
    >>> counter.duplicates, counter.is_exact
    (2, True)
    """

    def __init__(self, max_distinct=MAX_DISTINCT, block=1 << 18):
        self._max_distinct = max_distinct
        self._block_bytes = block * DIGEST_BYTES
        self._pending = bytearray()
        self._seen = np.zeros(0, dtype="<u8")
        self._duplicates = 0
        self.is_exact = True

    def add(self, example):
        self._pending += example_digest(example)
        if len(self._pending) >= self._block_bytes:
            self._merge()

    @property
    def duplicates(self):
        self._merge()
        return self._duplicates

    def _merge(self):
        block = digest_array(self._pending)
        self._pending.clear()
        distinct = np.unique(block)
        is_known, _ = contains(self._seen, distinct)
        new = distinct[~is_known]
        self._duplicates += len(block) - len(new)
        room = self._max_distinct - len(self._seen)
        if len(new) > room:
            self.is_exact = False
            new = new[:room]
        # Stable means timsort here, which merges two sorted runs in linear time.
        self._seen = np.sort(np.concatenate([self._seen, new]), kind="stable")
