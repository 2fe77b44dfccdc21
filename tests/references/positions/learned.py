import numpy as np


def encode(positions, hidden_dim, weights):
    return np.array([weights["embeddings"][position] for position in np.ravel(positions)]).reshape(
        *np.shape(positions), hidden_dim
    )
