import numpy as np

from tests.references.attention import softmax_attention


def attend(query, key, value, visible, offset, weights):
    def score(q, k, i, j, head, heads):
        sharpness = np.log(1 + np.exp(weights["sharpness"][head]))
        return sharpness * np.dot(q, k) / np.linalg.norm(q) / np.linalg.norm(k)

    return softmax_attention(query, key, value, visible, offset, score)
