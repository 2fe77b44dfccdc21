import numpy as np

SETTINGS = {"max_length": 20, "rank": 3}


def attend(query, key, value, visible, offset, weights):
    """Computes one row, head and query at a time; a key is masked for all queries or for none."""
    B, H, T, D = query.shape
    S = key.shape[2]
    contexts, all_weights = np.zeros((B, H, T, D)), np.zeros((B, H, T, S))
    for b, h, t in np.ndindex(B, H, T):
        seen = visible[b, h, t][:, None]
        by_key, by_value = (
            np.where(seen, weights[f"{name}_projection"][:S], 0) for name in ("key", "value")
        )
        scores = by_key.T @ key[b, h] @ query[b, h, t] / np.sqrt(D)
        exponentials = np.exp(scores - scores.max())
        all_weights[b, h, t] = by_value @ (exponentials / exponentials.sum())
        contexts[b, h, t] = all_weights[b, h, t] @ value[b, h]
    return contexts, all_weights
