"""Tests that no tensor grows with the square of the length, in result and gradient."""

import pytest
import tensorflow as tf

from keras_transformer.layers import MECHANISMS

LENGTH = 2048
SETTINGS = {
    "big_bird": {"block_size": 16},
    "chunked": {"chunk_size": 128},
    "linformer": {"max_length": LENGTH, "rank": 32},
    "local": {"window": 32},
}


def largest_tensor(name, **arguments):
    """Returns the number of elements of the largest tensor, in result, gradient and loops."""
    mechanism = MECHANISMS[name](dropout=0.1, **SETTINGS.get(name, {}))

    @tf.function
    def gradients(query, key, value, mask):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            context = mechanism(query, key, value, mask, training=True, **arguments)
        return tape.gradient(context, [query, key, value])

    heads = tf.TensorSpec([1, 1, LENGTH, 4])
    mask = tf.TensorSpec([1, 1, 1, LENGTH], tf.bool)
    graph = gradients.get_concrete_function(heads, heads, heads, mask).graph
    return max(all_sizes(graph))


def all_sizes(graph):
    """Yields the number of elements of all tensors of a graph and of functions that it calls."""
    for operation in graph.get_operations():
        for tensor in operation.outputs:
            yield tensor.shape.num_elements() or 0 if tensor.shape.rank is not None else 0
        for key in ("body", "cond", "f"):
            if key in operation.node_def.attr and operation.node_def.attr[key].func.name:
                function = operation.get_attr(key).name
                yield from all_sizes(graph._get_function(function).graph)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_largest_tensor_is_linear_in_the_length(name):
    assert largest_tensor(name) <= LENGTH * 256


@pytest.mark.parametrize("name", ["chunked", "local"])
def test_largest_tensor_with_causal_mask_is_linear_in_the_length(name):
    assert largest_tensor(name, use_causal_mask=True) <= LENGTH * 256


def test_largest_tensor_of_full_attention_is_quadratic():
    assert largest_tensor("scaled_dot_product") >= LENGTH**2
