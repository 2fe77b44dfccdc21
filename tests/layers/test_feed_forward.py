import keras
import numpy as np
import pytest

from keras_transformer.layers import FeedForward
from keras_transformer.layers.feed_forward import ACTIVATIONS
from tests.references import blocks


def made(random, **settings):
    layer = FeedForward(intermediate_dim=10, **settings)
    layer.build((None, None, 6))
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("use_bias", [True, False])
def test_values_equal_numpy(activation, use_bias, random):
    layer = made(random, activation=activation, use_bias=use_bias)
    x = random.normal(0, 1, (2, 3, 6))
    expected = blocks.feed_forward(x, layer)
    np.testing.assert_allclose(layer(x.astype("float32")), expected, atol=1e-5)
    again = FeedForward.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_positions_do_not_see_each_other(random):
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
def test_mixed_precision(dtype, random):
    layer = made(random, dtype=dtype)
    outputs = layer(keras.Input((None, 6)))
    assert outputs.dtype == layer.compute_dtype == dtype.removeprefix("mixed_")
    assert layer(random.normal(0, 1, (2, 3, 6))).dtype == layer.compute_dtype
    assert {weight.dtype for weight in layer.weights} == {"float32"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"intermediate_dim": 0}, "`intermediate_dim` must be a whole number of at least 1; got 0"),
        (
            {"activation": "gellu"},
            "`activation` must be one of .*; got 'gellu'. Did you mean 'gelu'?",
        ),
        ({"dropout": 1}, r"`dropout` must be a number in \[0, 1\); got 1"),
        ({"dropout": "much"}, r"`dropout` must be a number in \[0, 1\); got 'much'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"intermediate_dim": 8, **arguments})
