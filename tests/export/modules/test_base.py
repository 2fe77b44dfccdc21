"""Stored weights of text modules."""

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.export.modules.base import (
    LARGEST_CONSTANT_BYTES,
    QuantizedWeight,
    stored_weights,
)


def make_model():
    wide = LARGEST_CONSTANT_BYTES // 4 // 8 + 1  # one weight too many for a constant
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(wide), keras.layers.Dense(2)])


def test_stored_weights_are_cast_to_the_dtype_of_the_layers():
    model = make_model()
    stored = [tf.Variable(tf.cast(2 * weight.value, tf.float16)) for weight in model.weights]
    inputs = np.random.default_rng(1).normal(size=(3, 8)).astype("float32")
    with stored_weights(model, stored):
        outputs = model(inputs)
    for weight in model.weights:
        weight.assign(np.float16(2 * weight.numpy()))
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(outputs, model(inputs), rtol=1e-6, atol=1e-6)


def test_stored_weights_as_constants_keeps_large_ones_as_variables():
    model = make_model()
    stored = [weight.value for weight in model.weights]

    @tf.function(autograph=False)
    def predict(inputs):
        with stored_weights(model, stored, as_constants=True):
            return model(inputs)

    inputs = tf.ones([3, 8])
    captured = predict.get_concrete_function(inputs).captured_inputs
    assert [tensor is stored[0].handle for tensor in captured] == [True]  # the first kernel
    np.testing.assert_allclose(predict(inputs), model(inputs), rtol=1e-6)


def test_quantized_weight_is_off_by_at_most_half_a_scale(random):
    value = random.normal(size=(5, 3, 8)).astype("float32")
    value[2, 1] = 0
    weight = QuantizedWeight(tf.constant(value))
    assert weight.integers.dtype == tf.int8
    scale = np.abs(value).max(axis=-1, keepdims=True) / 127
    found = weight.dequantized(tf.float32).numpy()
    assert np.all(np.abs(found - value) <= scale * 0.501)
    np.testing.assert_array_equal(found[2, 1], 0)
    largest = np.abs(value).max(axis=-1)
    np.testing.assert_allclose(np.abs(found).max(axis=-1), largest, rtol=1e-6)
