"""Contract of every registered position encoding."""

import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import POSITION_ENCODINGS

B, T, M = 2, 9, 8
MAX_LENGTH = 40

every_encoding = pytest.mark.parametrize("name", sorted(POSITION_ENCODINGS))


def make(name, random, **settings):
    """Returns a built layer with random weights."""
    bound = {"max_length": MAX_LENGTH} if POSITION_ENCODINGS[name].has_max_length else {}
    layer = POSITION_ENCODINGS[name](**bound, **settings)
    layer.build((None, None, M))
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 1, variable.shape))
    return layer


def reference(name, layer, positions):
    """Returns the encoding by the NumPy formula in tests/references/positions/<name>.py."""
    module = importlib.import_module(f"tests.references.positions.{name}")
    weights = {variable.name: variable.numpy() for variable in layer.trainable_variables}
    return module.encode(np.asarray(positions), M, weights)


@every_encoding
@pytest.mark.parametrize("offset", [0, 30])
def test_values_equal_the_numpy_reference(name, offset, random):
    layer = make(name, random)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    expected = x + reference(name, layer, np.arange(offset, offset + T))
    np.testing.assert_allclose(layer(x, offset=offset), expected, atol=1e-5)
    in_graph = tf.function(lambda x, offset: layer(x, offset=offset))
    np.testing.assert_allclose(in_graph(x, tf.constant(offset)), expected, atol=1e-5)


@every_encoding
@pytest.mark.parametrize("shape", [(T,), (B, T)])
def test_explicit_positions_equal_the_numpy_reference(name, shape, random):
    layer = make(name, random)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    positions = random.integers(0, MAX_LENGTH, shape)
    expected = x + reference(name, layer, positions)
    np.testing.assert_allclose(layer(x, positions=positions), expected, atol=1e-5)


@every_encoding
def test_positions_of_wrong_rank_raise_value_error(name, random):
    layer = make(name, random)
    with pytest.raises(ValueError, match=r"`positions`.*\[T\] or \[B, T\]; got \(\)"):
        layer(np.zeros((B, T, M), "float32"), positions=tf.constant(3))


@every_encoding
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("jit", [False, True])
def test_other_precisions_and_xla_are_close(name, dtype, jit, random):
    layer = make(name, random, dtype=dtype)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    outputs = tf.function(layer, jit_compile=jit)(x)
    assert outputs.dtype == layer.compute_dtype
    expected = x + reference(name, layer, np.arange(T))
    tolerance = 1e-5 if dtype == "float32" else 0.05
    np.testing.assert_allclose(np.float32(outputs), expected, atol=tolerance)


@every_encoding
def test_symbolic_call_has_shape_and_mask(name, random):
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(5, M, mask_zero=True)(ids)
    outputs = make(name, random)(embedded)
    assert outputs.shape == (None, None, M)
    model = keras.Model(ids, outputs)
    assert model(np.array([[1, 2, 0]]))._keras_mask.numpy().tolist() == [[True, True, False]]


@every_encoding
def test_config_round_trip(name, random):
    layer = make(name, random)
    again = POSITION_ENCODINGS[name].from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
