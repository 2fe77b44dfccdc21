import numpy as np


def encode(positions, width, weights):
    encoded = np.zeros((*np.shape(positions), width))
    for index in np.ndindex(*np.shape(positions)):
        for i in range(width // 2):
            angle = positions[index] / 10_000 ** (2 * i / width)
            encoded[index][2 * i : 2 * i + 2] = np.sin(angle), np.cos(angle)
    return encoded
