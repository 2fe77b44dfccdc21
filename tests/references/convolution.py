"""Convolutional layers in NumPy, one row and one token at a time, in float64."""

import numpy as np

from tests.references.recurrence import sigmoid, softmax, weights_of

HALF_VARIANCE = np.sqrt(0.5)


def gated_convolution(layer, inputs):
    """Returns the outputs of one row `[T, M]` without padding."""
    weights, (length, hidden_dim) = weights_of(layer), inputs.shape
    kernels = weights["kernel"].reshape(layer.kernel_size, hidden_dim, 2 * hidden_dim)
    after = 0 if layer.is_causal else layer.kernel_size // 2
    outputs = []
    for t in range(length):
        total = weights["bias"].copy()
        for i, kernel in enumerate(kernels):
            position = t + after - (layer.kernel_size - 1) + i
            if 0 <= position < length:
                total += inputs[position] @ kernel
        content, gate = np.split(total, 2)
        outputs.append(content * sigmoid(gate))
    return np.array(outputs)


def encoder_block(layer, inputs):
    return (inputs + gated_convolution(layer.convolution, inputs)) * HALF_VARIANCE


def decoder_block(layer, inputs, embedded, key, value):
    """Returns outputs and attention weights of one row, with scaled dot products."""
    states = gated_convolution(layer.convolution, inputs)
    projection = weights_of(layer.query_projection)
    query = (states @ projection["kernel"] + projection["bias"] + embedded) * HALF_VARIANCE
    scores = query @ key.T / np.sqrt(key.shape[-1])
    weights = np.array([softmax(row) for row in scores])
    states = (states + weights @ value) * HALF_VARIANCE
    return (inputs + states) * HALF_VARIANCE, weights


def keys_and_values(states, embedded):
    """Returns keys and values of one row without padding."""
    return states, (states + embedded) * HALF_VARIANCE * np.sqrt(len(states))
