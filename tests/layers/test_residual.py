"""`Residual`, and the dropout and normalization layers in it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import Dropout, LayerNormalization, Residual
from tests.references import blocks

# --- dropout with random bytes --------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.3, 1 / 3, 0.999, 0.002])
def test_values_are_dropped_with_the_rate_and_others_scaled(rate):
    dropout = Dropout(rate, seed=5)
    kept = np.concatenate([dropout(tf.ones([40, 333]), training=True) for _ in range(30)])
    np.testing.assert_allclose(np.unique(kept), [0, 1 / (1 - rate)], rtol=1e-4)
    deviation = (rate * (1 - rate) / kept.size) ** 0.5
    # The threshold is a byte that each call rounds at random, so calls differ by up to 1/256.
    assert abs(np.mean(kept == 0) - rate) < 4 * deviation + 2 / 256 / 30**0.5


def test_rate_between_two_bytes_is_rounded_at_random():
    rate = 76.5 / 256
    dropout = Dropout(rate, seed=5)
    shares = [np.mean(dropout(tf.ones([2**18]), training=True) == 0) for _ in range(40)]
    below = np.mean(np.array(shares) < rate)
    assert 0.2 < below < 0.8
    np.testing.assert_allclose([min(shares), max(shares)], [76 / 256, 77 / 256], atol=4e-3)


def test_positions_are_dropped_independently():
    dropped = Dropout(0.3, seed=1)(tf.ones([2000, 64]), training=True).numpy() == 0
    correlation = np.corrcoef(dropped, rowvar=False) - np.eye(64)
    assert np.abs(correlation).max() < 0.12
    rows = dropped.mean(axis=1)
    assert abs(rows.std() - (0.3 * 0.7 / 64) ** 0.5) < 0.005


def test_equal_seeds_give_equal_masks():
    first, again, other = (Dropout(0.5, seed=seed) for seed in (1, 1, 2))
    ones = tf.ones([100])
    draws = [[layer(ones, training=True).numpy() for _ in range(2)] for layer in (first, again)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(*draws[0])
    assert not np.array_equal(draws[0][0], other(ones, training=True))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7,), (8,), (9,), (2, 3, 5)])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_any_shape_without_and_with_xla(shape, jit_compile):
    dropout = Dropout(0.5, seed=1)
    call = tf.function(lambda x: dropout(x, training=True), jit_compile=jit_compile)
    outputs = call(tf.ones(shape))
    assert outputs.shape == shape
    assert set(np.unique(outputs)) <= {0.0, 2.0}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dropout_preserves_dtype(dtype):
    outputs = Dropout(0.5, dtype=dtype)(tf.ones([50], dtype), training=True)
    assert outputs.dtype == dtype
    assert set(np.unique(tf.cast(outputs, "float32"))) == {0.0, 2.0}


def test_gradient_equals_the_scaled_mask():
    dropout, x = Dropout(0.5, seed=1), tf.ones([100])
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = dropout(x, training=True)
    np.testing.assert_array_equal(tape.gradient(outputs, x), outputs)


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True), (0.5, None)])
def test_without_training_or_rate_nothing_is_dropped(rate, training):
    x = tf.ones([100])
    np.testing.assert_array_equal(Dropout(rate)(x, training=training), x)


def test_dropout_config_round_trip():
    layer = Dropout(0.25, seed=3, name="some")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is Dropout
    assert (again.rate, again.seed, again.name) == (0.25, 3, "some")


# --- layer normalization with an explicit gradient ------------------------------------------------


def values_and_gradients(layer, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
    gradients = tape.gradient(outputs, [inputs, *layer.trainable_variables], upstream)
    return [outputs, *gradients]


@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8), (2, 3, 4, 8), (0, 8)])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_values_and_gradients_equal_those_of_keras(shape, offset):
    generator = np.random.default_rng(1)
    inputs = tf.constant(generator.normal(offset, 2.0, shape), "float32")
    upstream = tf.constant(generator.normal(size=shape), "float32")
    found = []
    for kind in (LayerNormalization, keras.layers.LayerNormalization):
        layer = kind(epsilon=1e-6)
        layer.build(shape)
        layer.gamma.assign([0.5, 2.0, 1.0, -1.0, 0.1, 3.0, 1.5, 0.0])
        layer.beta.assign(np.linspace(-1.0, 1.0, 8))
        found.append(values_and_gradients(layer, inputs, upstream))
    tolerance = 1e-5 if not offset else 2e-3  # a thousand loses three digits to rounding
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_computed_in_float32(policy):
    inputs = tf.constant(np.linspace(-300.0, 300.0, 16).reshape(2, 8), "float32")
    layer = LayerNormalization(dtype=policy)
    outputs = layer(tf.cast(inputs, layer.compute_dtype))
    assert outputs.dtype == layer.compute_dtype  # squares of 300 overflow float16
    expected = keras.layers.LayerNormalization()(inputs)
    np.testing.assert_allclose(tf.cast(outputs, "float32"), expected, atol=0.02)


def test_xla_gives_the_same_values():
    layer, inputs = LayerNormalization(), tf.random.stateless_normal([4, 8], [1, 2])
    compiled = tf.function(layer, jit_compile=True)(inputs)
    np.testing.assert_allclose(compiled, layer(inputs), atol=1e-6)


@pytest.mark.parametrize("settings", [{"center": False}, {"scale": False}])
def test_without_scale_or_center_values_equal_those_of_keras(settings):
    inputs = tf.random.stateless_normal([4, 8], [1, 2])
    ours, theirs = (
        kind(**settings)(inputs) for kind in (LayerNormalization, keras.layers.LayerNormalization)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_serialized_layer_has_the_same_config():
    layer = LayerNormalization(epsilon=1e-6, name="some")
    layer.build((None, 8))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is LayerNormalization
    assert (again.epsilon, again.name) == (1e-6, "some")


# --- residual connection --------------------------------------------------------------------------


def test_residual_equals_numpy(random):
    sublayer = keras.layers.Dense(6, bias_initializer="random_normal")
    x = random.normal(0, 1, (2, 3, 6))
    for normalize_first in (True, False):
        layer = Residual(normalize_first=normalize_first, normalization="rms")
        outputs = layer(x.astype("float32"), sublayer(layer.sublayer_inputs(x.astype("float32"))))
        expected = blocks.residual(x, layer, lambda y: blocks.dense(y, sublayer))
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
