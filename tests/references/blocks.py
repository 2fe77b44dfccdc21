"""Feed-forward networks, normalizations and whole blocks in float64."""

import math

import numpy as np


def dense(x, layer):
    kernel, *bias = (weight.numpy().astype("float64") for weight in layer.weights)
    return x @ kernel + (bias[0] if bias else 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "swish": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "linear": lambda x: x,
}
GATES = {
    "glu": "sigmoid",
    "bilinear": "linear",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "quick_geglu": "quick_gelu",
    "swiglu": "swish",
}


def feed_forward(x, layer):
    if layer.activation in GATES:
        gate = ACTIVATIONS[GATES[layer.activation]](dense(x, layer.inner))
        return dense(gate * dense(x, layer.linear), layer.outer)
    return dense(ACTIVATIONS[layer.activation](dense(x, layer.inner)), layer.outer)


def layer_norm(x, layer):
    gamma, beta = (weight.numpy().astype("float64") for weight in layer.weights)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6) * gamma + beta


def rms_norm(x, layer):
    scale = layer.weights[0].numpy().astype("float64")
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


NORMALIZATIONS = {"layer": layer_norm, "rms": rms_norm}


def attention(x, memory, layer, visible):
    """Scaled dot-product attention with all heads; `visible` is `[B, T, S]`."""
    H, D = layer.num_heads, layer.key_dim or x.shape[-1] // layer.num_heads
    query, key, value = (
        dense(inputs, projection).reshape(*inputs.shape[:2], H, D)
        for inputs, projection in (
            (x, layer.query_projection),
            (memory, layer.key_projection),
            (memory, layer.value_projection),
        )
    )
    if layer.query_key_normalization is not None:
        norm = NORMALIZATIONS[layer.query_key_normalization]
        query, key = norm(query, layer.query_norm), norm(key, layer.key_norm)
    context = np.zeros_like(query)
    for b, t, h in np.ndindex(*query.shape[:3]):
        seen = np.flatnonzero(visible[b, t])
        scores = key[b, seen, h] @ query[b, t, h] / math.sqrt(D)
        weights = np.exp(scores - scores.max())
        context[b, t, h] = weights / weights.sum() @ value[b, seen, h]
    return dense(context.reshape(*query.shape[:2], H * D), layer.output_projection)


def residual(x, layer, sublayer):
    norm = NORMALIZATIONS[layer.normalization]
    if layer.normalize_first:
        return x + sublayer(norm(x, layer.norm))
    return norm(x + sublayer(x), layer.norm)


def encoder_block(x, block, visible):
    x = residual(
        x, block.self_attention_residual, lambda y: attention(y, y, block.self_attention, visible)
    )
    return residual(x, block.feed_forward_residual, lambda y: feed_forward(y, block.feed_forward))


def decoder_block(x, memory, block, visible, memory_visible):
    x = residual(
        x, block.self_attention_residual, lambda y: attention(y, y, block.self_attention, visible)
    )
    if memory is not None:
        x = residual(
            x,
            block.cross_attention_residual,
            lambda y: attention(y, memory, block.cross_attention, memory_visible),
        )
    return residual(x, block.feed_forward_residual, lambda y: feed_forward(y, block.feed_forward))
