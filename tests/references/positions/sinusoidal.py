import numpy as np


def encode(positions, hidden_dim, weights):
    encoded = np.zeros((*np.shape(positions), hidden_dim))
    for index in np.ndindex(*np.shape(positions)):
        for i in range(hidden_dim // 2):
            angle = positions[index] / 10_000 ** (2 * i / hidden_dim)
            encoded[index][2 * i : 2 * i + 2] = np.sin(angle), np.cos(angle)
    return encoded
