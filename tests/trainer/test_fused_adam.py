"""Fused Adam and AdamW, compared with those of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import InverseSquareRootDecay
from keras_transformer.trainer import FusedAdam, FusedAdamW

PAIRS = [(FusedAdam, keras.optimizers.Adam), (FusedAdamW, keras.optimizers.AdamW)]


def trained(kind, jit_compile=False, steps=5, **settings):
    """Returns all variables of model and optimizer after some steps with the same gradients."""
    generator = np.random.default_rng(1)
    variables = [keras.Variable(generator.normal(size=s)) for s in ((3, 4), (5,), ())]
    optimizer = kind(**settings)
    optimizer.build(variables)

    @tf.function(jit_compile=jit_compile)
    def step(*gradients):
        optimizer.apply(gradients, variables)

    for _ in range(steps):
        step(*(tf.constant(generator.normal(size=v.shape), "float32") for v in variables))
    return {v.path: v.numpy() for v in [*variables, *optimizer.variables]}.values()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.1, "beta_1": 0.8, "beta_2": 0.98, "epsilon": 1e-3},
        {"learning_rate": InverseSquareRootDecay(0.1, 3), "global_clipnorm": 0.5},
        {"learning_rate": 0.1, "use_ema": True, "ema_momentum": 0.9},
        {"learning_rate": 0.1, "amsgrad": True},
    ],
)
def test_variables_equal_those_of_keras(ours, theirs, settings):
    for found, expected in zip(trained(ours, **settings), trained(theirs, **settings), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_variables_equal_those_of_keras_when_compiled_by_xla(ours, theirs):
    compiled = trained(ours, jit_compile=True, learning_rate=0.1)
    for found, expected in zip(compiled, trained(theirs, learning_rate=0.1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_sparse_gradients_are_summed():
    variable = keras.Variable(np.ones((4, 2)))
    optimizer = FusedAdam(0.1)
    gradient = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]), tf.constant([4, 2]))
    optimizer.apply([gradient], [variable])
    np.testing.assert_allclose(variable.numpy()[:, 0], [1.0, 0.9, 1.0, 1.0], atol=1e-6)
