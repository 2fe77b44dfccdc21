import math

import numpy as np

from tests.references.attention import softmax_attention

SETTINGS = {"num_buckets": 8, "max_distance": 6}


def bucket(distance, is_causal, num_buckets, max_distance):
    """Returns the bucket of the position of a key minus that of a query."""
    first, count = 0, num_buckets
    if not is_causal:
        count = num_buckets // 2
        first = count if distance > 0 else 0
        distance = -abs(distance)
    back = max(-distance, 0)
    exact = count // 2
    if back < exact:
        return first + back
    steps = math.log(back / exact) / math.log(max_distance / exact) * (count - exact)
    return first + min(exact + int(steps + 1e-9), count - 1)


def attend(query, key, value, visible, offset, weights):
    queries, keys = visible.shape[2:]
    is_later = np.arange(keys) > offset + np.arange(queries)[:, None]
    is_causal = not visible[:, :, is_later].any()

    def score(q, k, i, j, head, heads):
        row = bucket(j - i, is_causal, **SETTINGS)
        return np.dot(q, k) / math.sqrt(len(q)) + weights["biases"][row, head]

    return softmax_attention(query, key, value, visible, offset, score)
