"""Random changes of inputs, for fuzzing without a guide."""

import random
from collections.abc import Iterator, Sequence


def mutations(
    seeds: Sequence[bytes], words: Sequence[bytes], count: int, max_bytes: int, seed: int = 1
) -> Iterator[bytes]:
    """Yields the seeds, then changed seeds, `count` inputs in all.

    >>> inputs = list(mutations([b"key: value"], [b"null"], 5, 20))
    >>> len(inputs), inputs[0], max(map(len, inputs)) <= 20
    (5, b'key: value', True)
    """
    yield from seeds[:count]
    chance = random.Random(seed)
    for _ in range(count - len(seeds)):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
            _change(data, seeds, words, chance)
        yield bytes(data[:max_bytes])


def _change(
    data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes], chance: random.Random
) -> None:
    """Makes one random change."""
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((1, 1, 2, 4, 16, 64)))
    kind = chance.randrange(7)
    if kind == 0 and start < end:
        data[start] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[start:end] = chance.randbytes(end - start)
    elif kind == 2:
        del data[start:end]
    elif kind == 3:
        data[start:start] = data[start:end]
    elif kind == 4 and words:
        data[start:end] = chance.choice(words)
    elif kind == 5 and words:
        data[start:start] = chance.choice(words)
    else:
        other = chance.choice(seeds)
        first = chance.randrange(len(other) + 1)
        data[start:end] = other[first : first + chance.randrange(1, 65)]
