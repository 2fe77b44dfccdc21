"""Tests of the pointer-generator and the coverage loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import CoverageLoss, PointerGenerator

B, T, S, M, V = 4, 3, 5, 6, 9


@pytest.fixture
def inputs(random):
    weights = random.random((B, T, S)).astype("float32")
    return {
        "states": random.normal(0, 1, (B, T, M)).astype("float32"),
        "logits": random.normal(0, 2, (B, T, V)).astype("float32"),
        "weights": weights / weights.sum(axis=-1, keepdims=True),
        "source": random.integers(0, V, (B, S)),
    }


def make_layer(inputs, random, **settings):
    layer = PointerGenerator(**settings)
    layer(**inputs)
    for weight in layer.weights:
        weight.assign(random.normal(0, 1, weight.shape))
    return layer


def reference(layer, states, logits, weights, source):
    kernel, bias = (weight.numpy().astype("float64") for weight in layer.weights)
    share = 1 / (1 + np.exp(-(states @ kernel + bias)))  # [B, T, 1]
    exponentials = np.exp(logits)
    mixed = share * exponentials / exponentials.sum(axis=-1, keepdims=True)
    for b, t, i in np.ndindex(*weights.shape):
        mixed[b, t, source[b, i]] += (1 - share[b, t, 0]) * weights[b, t, i]
    return np.log(mixed)


@pytest.mark.parametrize("jit", [False, True])
def test_pointer_generator_equals_the_numpy_reference(jit, inputs, random):
    layer = make_layer(inputs, random)
    outputs = tf.function(lambda **arrays: layer(**arrays), jit_compile=jit)(**inputs)
    np.testing.assert_allclose(outputs, reference(layer, **inputs), atol=1e-5)
    np.testing.assert_allclose(np.exp(outputs).sum(axis=-1), 1.0, atol=1e-5)


def test_pointer_generator_repeats_the_source_for_hypotheses(inputs, random):
    layer = make_layer(inputs, random)
    shared = {**inputs, "source": inputs["source"][:2]}  # two hypotheses of each
    repeated = {**inputs, "source": inputs["source"][:2].repeat(2, axis=0)}
    np.testing.assert_array_equal(layer(**shared), layer(**repeated))


def test_pointer_generator_has_finite_gradients_for_unattended_tokens(inputs, random):
    """The source lacks tokens, is fully masked, or has one attended token."""
    layer = make_layer(inputs, random)
    inputs["weights"][0] = 0.0
    inputs["weights"][1] = [1.0, 0.0, 0.0, 0.0, 0.0]
    weights, states = tf.constant(inputs["weights"]), tf.constant(inputs["states"])
    with tf.GradientTape() as tape:
        tape.watch([weights, states])
        outputs = layer(**{**inputs, "weights": weights, "states": states})
        loss = -tf.reduce_sum(outputs)
    for array in (outputs, *tape.gradient(loss, [weights, states])):
        assert np.all(np.isfinite(array))


def test_pointer_generator_in_mixed_precision_returns_float32(inputs, random):
    layer = make_layer(inputs, random)
    other = make_layer(inputs, random, dtype="mixed_bfloat16")
    for variable, value in zip(other.weights, layer.weights, strict=True):
        variable.assign(value)
    outputs = other(**inputs)
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(outputs, layer(**inputs), atol=0.05)


def test_pointer_generator_config_round_trip():
    layer = PointerGenerator(bias_initializer=keras.initializers.Constant(2.0))
    assert PointerGenerator.from_config(layer.get_config()).get_config() == layer.get_config()


def test_coverage_loss_is_the_mean_of_repeated_attention(random):
    weights = random.random((2, 4, 3)).astype("float32")
    is_token = np.array([[True, True, True, True], [True, True, False, False]])
    expected, tokens = 0.0, is_token.sum()
    for row, mask in zip(weights, is_token, strict=True):
        for t in np.flatnonzero(mask):
            expected += sum(min(row[t, i], row[:t, i].sum()) for i in range(3)) / tokens
    layer = CoverageLoss(weight=0.5)
    inputs = tf.constant([1.0])
    assert layer(inputs, weights, is_token, training=True) is inputs
    np.testing.assert_allclose(layer.losses, [0.5 * expected], rtol=1e-5)


def test_coverage_loss_is_added_only_in_training(random):
    layer = CoverageLoss()
    layer(tf.zeros(1), random.random((2, 4, 3)), np.ones((2, 4), bool), training=False)
    assert layer.losses == []


def test_coverage_loss_with_negative_weight_raises_value_error():
    with pytest.raises(ValueError, match=r"`weight`.*at least 0; got -1"):
        CoverageLoss(weight=-1)
