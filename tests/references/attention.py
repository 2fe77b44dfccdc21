"""Softmax attention, one query, key and head at a time."""

import numpy as np


def softmax_attention(query, key, value, visible, offset, score, value_at=None):
    """Context `[B, H, T, D]` and weights `[B, H, T, S]`.

    Args:
        query, key, value: `[B, H, T|S, D]`.
        visible: boolean `[B, H, T, S]`.
        offset: position of the first query.
        score: function of (query vector, key vector, query position, key position, head, heads).
        value_at: function of (value vector, query position, key position), if positions matter.
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
