"""Convolutional layers, one row and one token at a time, in float64."""

import numpy as np

from tests.references.recurrence import sigmoid, softmax, weights_of

HALF = np.sqrt(0.5)


def gated_convolution(layer, inputs):
    """Outputs of one row `[T, M]` without padding."""
    weights, (length, hidden_dim) = weights_of(layer), inputs.shape
    kernels = weights["kernel"].reshape(layer.kernel_width, hidden_dim, 2 * hidden_dim)
    after = 0 if layer.is_causal else layer.kernel_width // 2
    outputs = []
    for t in range(length):
        total = weights["bias"].copy()
        for i, kernel in enumerate(kernels):
            place = t + after - (layer.kernel_width - 1) + i
            if 0 <= place < length:
                total += inputs[place] @ kernel
        content, gate = np.split(total, 2)
        outputs.append(content * sigmoid(gate))
    return np.array(outputs)


def encoder_block(layer, inputs):
    return (inputs + gated_convolution(layer.convolution, inputs)) * HALF


def decoder_block(layer, inputs, embedded, key, value):
    """Outputs and weights of one row; scaled dot products."""
    states = gated_convolution(layer.convolution, inputs)
    projection = weights_of(layer.query_projection)
    query = (states @ projection["kernel"] + projection["bias"] + embedded) * HALF
    scores = query @ key.T / np.sqrt(key.shape[-1])
    weights = np.array([softmax(row) for row in scores])
    states = (states + weights @ value) * HALF
    return (inputs + states) * HALF, weights


def memory(states, embedded):
    """Keys and values of one row without padding."""
    return states, (states + embedded) * HALF * np.sqrt(len(states))
