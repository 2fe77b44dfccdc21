"""Tests of the encoding of depths in a tree."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import POSITION_ENCODINGS, TreeDepthEncoding
from tests.references.positions.sinusoidal import encode

DEPTHS = np.array([[2, 1, 2, 3, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("dtype", "jit", "tolerance"),
    [("float32", False, 1e-5), ("float32", True, 1e-5), ("mixed_bfloat16", False, 0.05)],
)
def test_values_equal_numpy(dtype, jit, tolerance, random):
    layer = TreeDepthEncoding(dtype=dtype)
    x = random.normal(0, 1, (2, 5, 8)).astype("float32")
    layer(x, positions=DEPTHS)
    outputs = tf.function(layer, jit_compile=jit)(x, positions=tf.constant(DEPTHS))
    expected = x + np.tanh(encode(DEPTHS, 8, {}) @ layer.kernel.numpy())
    assert outputs.dtype == layer.compute_dtype
    np.testing.assert_allclose(np.float32(outputs), expected, atol=tolerance)


def test_position_and_depth_are_not_interchangeable(random):
    """Position 3 at depth 2 differs from position 2 at depth 3, unlike with plain sinusoids."""
    position, depth = POSITION_ENCODINGS["sinusoidal"](), TreeDepthEncoding()
    x = np.zeros((1, 1, 8), "float32")

    def at(t, d):
        return depth(position(x, positions=np.array([t])), positions=np.array([[d]])).numpy()

    assert np.abs(at(3, 2) - at(2, 3)).max() > 0.01


def test_mask_is_passed_on_and_config_round_trips():
    ids, depths = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    layer = TreeDepthEncoding(max_wavelength=100)
    embedded = keras.layers.Embedding(5, 8, mask_zero=True)(ids)
    model = keras.Model([ids, depths], layer(embedded, positions=depths))
    outputs = model([np.array([[1, 2, 0]]), np.array([[1, 2, 0]])])
    assert outputs._keras_mask.numpy().tolist() == [[True, True, False]]
    assert TreeDepthEncoding.from_config(layer.get_config()).get_config() == layer.get_config()
