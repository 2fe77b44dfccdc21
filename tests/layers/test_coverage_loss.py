import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import CoverageLoss


def test_the_loss_is_the_mean_of_what_is_looked_at_again(random):
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


def test_only_training_adds_it(random):
    layer = CoverageLoss()
    layer(tf.zeros(1), random.random((2, 4, 3)), np.ones((2, 4), bool), training=False)
    assert layer.losses == []


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="`weight` must be a finite number of at least 0; got -1"):
        CoverageLoss(weight=-1)
