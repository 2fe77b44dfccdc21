import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import PointerGenerator

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


def made(inputs, random, **settings):
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
def test_values_equal_the_numpy_reference(jit, inputs, random):
    layer = made(inputs, random)
    outputs = tf.function(lambda **given: layer(**given), jit_compile=jit)(**inputs)
    np.testing.assert_allclose(outputs, reference(layer, **inputs), atol=1e-5)
    np.testing.assert_allclose(np.exp(outputs).sum(axis=-1), 1.0, atol=1e-5)


def test_hypotheses_share_their_source(inputs, random):
    layer = made(inputs, random)
    shared = {**inputs, "source": inputs["source"][:2]}  # two hypotheses of each
    repeated = {**inputs, "source": inputs["source"][:2].repeat(2, axis=0)}
    np.testing.assert_array_equal(layer(**shared), layer(**repeated))


def test_gradients_are_finite_where_nothing_is_copied(inputs, random):
    """Tokens that the source lacks, a source all hidden, and a token looked at alone."""
    layer = made(inputs, random)
    inputs["weights"][0] = 0.0
    inputs["weights"][1] = [1.0, 0.0, 0.0, 0.0, 0.0]
    weights, states = tf.constant(inputs["weights"]), tf.constant(inputs["states"])
    with tf.GradientTape() as tape:
        tape.watch([weights, states])
        outputs = layer(**{**inputs, "weights": weights, "states": states})
        loss = -tf.reduce_sum(outputs)
    for array in (outputs, *tape.gradient(loss, [weights, states])):
        assert np.all(np.isfinite(array))


def test_mixed_precision_gives_float32(inputs, random):
    layer = made(inputs, random)
    other = made(inputs, random, dtype="mixed_bfloat16")
    for variable, value in zip(other.weights, layer.weights, strict=True):
        variable.assign(value)
    outputs = other(**inputs)
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(outputs, layer(**inputs), atol=0.05)


def test_config_round_trip():
    layer = PointerGenerator(bias_initializer=keras.initializers.Constant(2.0))
    assert PointerGenerator.from_config(layer.get_config()).get_config() == layer.get_config()
