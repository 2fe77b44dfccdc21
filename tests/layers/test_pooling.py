"""Tests of pooling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import Pooling

X = np.array([[[1.0, -5], [3, -1], [9, 9]], [[2, 2], [7, 7], [7, 7]], [[4, 4], [4, 4], [4, 4]]])
MASK = np.array([[True, True, False], [True, False, False], [False, False, False]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [[2, -3], [2, 2], [0, 0]]),
        ("max", [[3, -1], [2, 2], [0, 0]]),
        ("first", [[1, -5], [2, 2], [0, 0]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_masked_positions_are_left_out(mode, expected, dtype):
    layer = Pooling(mode, dtype=dtype)
    pooled = layer(X.astype("float32"), mask=tf.constant(MASK))
    assert pooled.dtype == layer.compute_dtype
    np.testing.assert_allclose(np.float32(pooled), expected)
    assert Pooling.from_config(layer.get_config()).mode == mode


def test_without_a_mask_all_positions_count():
    np.testing.assert_allclose(Pooling("mean")(X.astype("float32")), X.mean(1), atol=1e-6)


def test_implicit_mask_is_used_and_not_passed_on():
    ids = keras.Input((None,), dtype="int32")
    pooled = Pooling("mean")(keras.layers.Embedding(5, 4, mask_zero=True)(ids))
    model = keras.Model(ids, pooled)
    short, long = model(np.array([[1, 2]])), model(np.array([[1, 2, 0, 0]]))
    np.testing.assert_allclose(short, long, atol=1e-6)
    assert getattr(long, "_keras_mask", None) is None


def test_fully_masked_row_has_finite_gradients():
    x = tf.Variable(X.astype("float32"))
    for mode in ("mean", "max", "first"):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(Pooling(mode)(x, mask=tf.constant(MASK)) ** 2)
        assert np.all(np.isfinite(tape.gradient(loss, x)))


def test_unknown_mode_raises_value_error():
    with pytest.raises(ValueError, match=r"`mode`.*'first'.*'sum'"):
        Pooling("sum")
