"""`FeedForward` and its activations."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import FeedForward
from keras_transformer.layers.feed_forwards.feed_forward import ACTIVATIONS, GATES
from tests.references import blocks


def made(random, **settings):
    layer = FeedForward(intermediate_dim=10, **settings)
    layer.build((None, None, 6))
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish", *ACTIVATIONS, *GATES])
@pytest.mark.parametrize("use_bias", [True, False])
def test_outputs_equal_numpy(activation, use_bias, random):
    layer = made(random, activation=activation, use_bias=use_bias)
    x = random.normal(0, 1, (2, 3, 6))
    expected = blocks.feed_forward(x, layer)
    np.testing.assert_allclose(layer(x.astype("float32")), expected, atol=1e-5)
    again = FeedForward.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_outputs_depend_on_their_own_position_alone(random):
    layer = made(random)
    x = random.normal(0, 1, (2, 3, 6)).astype("float32")
    changed = x.copy()
    changed[:, 1] += 1
    before, after = layer(x).numpy(), layer(changed).numpy()
    np.testing.assert_array_equal(before[:, [0, 2]], after[:, [0, 2]])
    assert not np.array_equal(before[:, 1], after[:, 1])


def test_activation_dropout_acts_in_training_only(random):
    layer = made(random, dropout=0.5)
    x = random.normal(0, 1, (2, 3, 6)).astype("float32")
    np.testing.assert_array_equal(layer(x), layer(x))
    assert not np.array_equal(layer(x, training=True), layer(x, training=True))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_computes_in_half_precision(dtype, random):
    layer = made(random, dtype=dtype)
    outputs = layer(keras.Input((None, 6)))
    assert outputs.dtype == layer.compute_dtype == dtype.removeprefix("mixed_")
    assert layer(random.normal(0, 1, (2, 3, 6))).dtype == layer.compute_dtype
    assert {weight.dtype for weight in layer.weights} == {"float32"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"intermediate_dim": 0}, "`intermediate_dim` must be a whole number of at least 1; got 0"),
        ({"activation": "gellu"}, "`activation` must be .*'swiglu'; got 'gellu'.*'gelu'"),
        ({"activation": 3}, "`activation` must be .*; got 3"),
        ({"dropout": 1}, r"`dropout` must be a number in \[0, 1\); got 1"),
        ({"dropout": "much"}, r"`dropout` must be a number in \[0, 1\); got 'much'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"intermediate_dim": 8, **arguments})


def double(x):
    return 2 * x


@pytest.mark.parametrize(
    "activation", ["tanh", "silu", "leaky_relu", keras.activations.mish, keras.ops.softplus, double]
)
def test_any_keras_activation_acts_on_the_inner_layer(activation, random):
    layer = made(random, activation=activation)
    x = random.normal(0, 1, (2, 3, 6)).astype("float32")
    function = keras.activations.get(activation)
    inner = function(keras.ops.matmul(x, layer.inner.kernel) + layer.inner.bias)
    expected = keras.ops.matmul(inner, layer.outer.kernel) + layer.outer.bias
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    assert layer.activation is activation


def test_activation_function_is_saved_by_name():
    layer = FeedForward(8, activation=keras.activations.mish)
    config = layer.get_config()
    assert config["activation"] == "mish"
    assert FeedForward.from_config(config).get_config() == config
