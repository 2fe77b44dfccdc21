import numpy as np

from tests.references.attention import softmax_attention

#: Distances are clipped within the short texts of the tests.
SETTINGS = {"max_distance": 2}


def attend(query, key, value, visible, offset, weights, relations=None):
    """Takes `relations` `[B, T, S]` as lists of whole numbers, None for unrelated tokens."""
    key_table, value_table = weights["key_distances"], weights["value_distances"]
    reach = (len(key_table) - 2) // 2
    contexts, all_weights = [], []
    for b in range(len(query)):

        def row(i, j, b=b):
            relation = None if relations is None else relations[b][i - offset][j]
            if relation is None:
                return len(key_table) - 1
            return max(-reach, min(reach, relation)) + reach

        def score(q, k, i, j, head, heads, row=row):
            return np.dot(q, k + key_table[row(i, j)]) / np.sqrt(len(q))

        def value_at(v, i, j, row=row):
            return v + value_table[row(i, j)]

        one = slice(b, b + 1)
        context, of_row = softmax_attention(
            query[one], key[one], value[one], visible[one], offset, score, value_at
        )
        contexts.append(context)
        all_weights.append(of_row)
    return np.concatenate(contexts), np.concatenate(all_weights)
