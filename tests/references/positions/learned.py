import numpy as np


def encode(positions, width, weights):
    return np.array([weights["embeddings"][position] for position in np.ravel(positions)]).reshape(
        *np.shape(positions), width
    )
