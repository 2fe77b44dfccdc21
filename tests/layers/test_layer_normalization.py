"""Layer normalization with an explicit gradient, beside Keras' own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers.normalization import LayerNormalization


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
