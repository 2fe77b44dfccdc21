import numpy as np

SETTINGS = {"factor": 3}


def attend(query, key, value, visible, offset, weights):
    """Computes one row, head and query at a time, block by block.

    Apart from a causal mask, a key is masked for all queries or for none. With a causal mask, a
    query sees only complete blocks.
    """
    B, H, T, D = query.shape
    S, factor = key.shape[2], SETTINGS["factor"]
    contexts, all_weights = np.zeros((B, H, T, D)), np.zeros((B, H, T, S))
    for b, h, t in np.ndindex(B, H, T):
        is_token = visible[b, h].any(axis=0)
        is_causal = not np.all(visible[b, h] == is_token)
        seen, scores, values = [], [], []
        for start in range(0, S, factor):
            block = [s for s in range(start, min(start + factor, S)) if is_token[s]]
            is_complete = start + factor - 1 <= t + offset
            if not block or (is_causal and not is_complete):
                continue
            compressed = [
                sum(x[b, h, s] @ weights[f"{name}_kernel"][s - start] for s in block)
                for name, x in (("key", key), ("value", value))
            ]
            seen.append(block)
            scores.append(compressed[0] @ query[b, h, t] / np.sqrt(D))
            values.append(compressed[1])
        if not seen:
            continue
        exponentials = np.exp(np.array(scores) - max(scores))
        for block, weight, vector in zip(
            seen, exponentials / exponentials.sum(), values, strict=True
        ):
            all_weights[b, h, t, block] = weight / len(block)
            contexts[b, h, t] += weight * vector
    return contexts, all_weights
