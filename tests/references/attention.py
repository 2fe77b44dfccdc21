"""Softmax attention in NumPy, one query, key and head at a time."""

import numpy as np


def softmax_attention(query, key, value, visible, offset, score, value_at=None):
    """Returns the context `[B, H, T, D]` and the attention weights `[B, H, T, S]`.

    Args:
        query: `[B, H, T, D]`.
        key: `[B, H, S, D]`.
        value: `[B, H, S, D]`.
        visible: Boolean `[B, H, T, S]`.
        offset: Position of the first query.
        score: Function of (query vector, key vector, query position, key position, head, heads).
        value_at: Function of (value vector, query position, key position). Default: the vector.
    """
    B, H, T, _ = query.shape
    S, D = value.shape[2:]
    context, weights = np.zeros((B, H, T, D)), np.zeros((B, H, T, S))
    for b, h, t in np.ndindex(B, H, T):
        seen = [s for s in range(S) if visible[b, h, t, s]]
        if not seen:
            continue
        scores = np.array([score(query[b, h, t], key[b, h, s], t + offset, s, h, H) for s in seen])
        exponentials = np.exp(scores - scores.max())
        for s, weight in zip(seen, exponentials / exponentials.sum(), strict=True):
            weights[b, h, t, s] = weight
            vector = value[b, h, s]
            context[b, h, t] += weight * (value_at(vector, t + offset, s) if value_at else vector)
    return context, weights
