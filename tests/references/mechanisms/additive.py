import numpy as np

from tests.references.attention import softmax_attention


def attend(query, key, value, visible, offset, weights):
    def score(q, k, i, j, head, heads):
        hidden = np.tanh(q @ weights["query_kernel"][head] + k @ weights["key_kernel"][head])
        return np.dot(hidden, weights["score_kernel"][head, :, 0])

    return softmax_attention(query, key, value, visible, offset, score)
