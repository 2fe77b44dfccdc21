import numpy as np

from tests.references.mechanisms import scaled_dot_product

SETTINGS = {"block_size": 2, "num_global": 1, "num_window": 3, "num_random": 1, "seed": 5}


def attend(query, key, value, visible, offset, weights):
    """Returns full attention with a mask that is computed block by block."""
    sees = visible.copy()
    size = SETTINGS["block_size"]
    for b, h, t in np.ndindex(visible.shape[:3]):
        seen = blocks_seen(t // size, visible[b].any(axis=(0, 1)))
        sees[b, h, t] &= [seen[s // size] for s in range(visible.shape[3])]
    return scaled_dot_product.attend(query, key, value, sees, offset, weights)


def blocks_seen(own, is_token):
    """Returns for each block of keys whether a block of queries sees it."""
    size, first = SETTINGS["block_size"], SETTINGS["num_global"]
    count = -(-len(is_token) // size)
    if own < first:
        return [True] * count
    seen = [j < first or abs(j - own) <= SETTINGS["num_window"] // 2 for j in range(count)]
    end = max([0, *(s // size + 1 for s in np.flatnonzero(is_token))])
    candidates = [j for j in range(end) if not seen[j]]
    numbers = np.random.RandomState(SETTINGS["seed"]).randint(
        2**31 - 1, size=(4096, SETTINGS["num_random"])
    )
    for i, number in enumerate(numbers[own]):
        low, high = (len(candidates) * k // SETTINGS["num_random"] for k in (i, i + 1))
        if high > low:
            seen[candidates[low + number % (high - low)]] = True
    return seen
