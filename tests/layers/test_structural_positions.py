"""Depths in a tree, added to embeddings."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import SCHEMES, TreeDepthEncoding
from tests.references.positions.sinusoidal import encode

DEPTHS = np.array([[2, 1, 2, 3, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("dtype", "jit", "tolerance"),
    [("float32", False, 1e-5), ("float32", True, 1e-5), ("mixed_bfloat16", False, 0.05)],
)
def test_values(dtype, jit, tolerance, random):
    layer = TreeDepthEncoding(dtype=dtype)
    x = random.normal(0, 1, (2, 5, 8)).astype("float32")
    layer(x, positions=DEPTHS)
    outputs = tf.function(layer, jit_compile=jit)(x, positions=tf.constant(DEPTHS))
    expected = x + np.tanh(encode(DEPTHS, 8, {}) @ layer.kernel.numpy())
    assert outputs.dtype == layer.compute_dtype
    np.testing.assert_allclose(np.float32(outputs), expected, atol=tolerance)


def test_place_and_depth_are_told_apart(random):
    """Place 3 at depth 2 is not place 2 at depth 3, as it is for two sums of one kind."""
    place, depth = SCHEMES["sinusoidal"](), TreeDepthEncoding()
    x = np.zeros((1, 1, 8), "float32")

    def at(t, d):
        return depth(place(x, positions=np.array([t])), positions=np.array([[d]])).numpy()

    assert np.abs(at(3, 2) - at(2, 3)).max() > 0.01


def test_masks_pass_and_settings_come_back():
    ids, depths = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    layer = TreeDepthEncoding(max_wavelength=100)
    embedded = keras.layers.Embedding(5, 8, mask_zero=True)(ids)
    model = keras.Model([ids, depths], layer(embedded, positions=depths))
    outputs = model([np.array([[1, 2, 0]]), np.array([[1, 2, 0]])])
    assert outputs._keras_mask.numpy().tolist() == [[True, True, False]]
    assert TreeDepthEncoding.from_config(layer.get_config()).get_config() == layer.get_config()
