"""Tests of the convolutional layers against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    EncoderKeysAndValues,
    GatedConvolution,
)
from tests.references import convolution

LENGTHS = (5, 2)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]


def with_random_weights(layer, random, inputs=1):
    layer.build(*[(None, None, 6)] * inputs)
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


def normal(random, *shape):
    return random.normal(0, 1, shape).astype("float32")


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kernel_size", [1, 2, 3, 8])
def test_gated_convolution_equals_numpy(kernel_size, is_causal, random):
    """Windows have even and odd size, and are longer than the text; padding does not count."""
    layer = with_random_weights(GatedConvolution(kernel_size, is_causal=is_causal), random)
    inputs = normal(random, 2, 5, 6)
    outputs = layer(inputs, mask=tf.constant(MASK))
    for row, length in enumerate(LENGTHS):
        expected = convolution.gated_convolution(layer, inputs[row, :length])
        np.testing.assert_allclose(outputs[row, :length], expected, atol=1e-5)


def test_gated_convolution_with_cache_equals_full_call(random):
    layer = with_random_weights(GatedConvolution(4, is_causal=True), random)
    inputs, cache, pieces = normal(random, 2, 6, 6), layer.initial_cache(2), []
    for piece in np.split(inputs, [1, 3], axis=1):
        outputs, cache = layer(piece, cache=cache)
        pieces.append(outputs)
    np.testing.assert_allclose(tf.concat(pieces, 1), layer(inputs), atol=1e-5)
    with pytest.raises(ValueError, match=r"cannot use a cache.*is_causal=True"):
        GatedConvolution(4)(inputs, cache=cache)


def test_encoder_and_decoder_block_equal_numpy(random):
    encoder = with_random_weights(ConvolutionalEncoderBlock(3), random)
    decoder = with_random_weights(ConvolutionalDecoderBlock(3), random, inputs=4)
    source, target, embedded = (normal(random, 2, length, 6) for length in (5, 4, 4))
    mask = tf.constant(MASK)
    states = encoder(source, mask=mask)
    keys, values = EncoderKeysAndValues(2)(states, source, states_mask=mask)
    outputs, weights = decoder(
        target, embedded, keys, values, key_mask=mask, return_attention_scores=True
    )
    for row, length in enumerate(LENGTHS):
        tokens = source[row, :length].astype("float64")
        expected_states = convolution.encoder_block(encoder, tokens)
        np.testing.assert_allclose(states[row, :length], expected_states, atol=1e-5)
        key, value = convolution.keys_and_values(expected_states, tokens)
        np.testing.assert_allclose(values[row, :length], value, atol=1e-5)
        expected = convolution.decoder_block(decoder, target[row], embedded[row], key, value)
        np.testing.assert_allclose(outputs[row], expected[0], atol=1e-5)
        np.testing.assert_allclose(weights[row, :, :length], expected[1], atol=1e-5)
        assert not np.any(weights[row, :, length:])


def test_gradients_of_encoder_states_are_divided_by_the_number_of_decoder_layers(random):
    """The gradients of the embeddings are not divided."""
    states, embedded = (tf.constant(normal(random, 2, 4, 6)) for _ in range(2))
    with tf.GradientTape() as tape:
        tape.watch([states, embedded])
        keys, values = EncoderKeysAndValues(num_decoder_layers=5)(states, embedded, training=True)
        total = tf.reduce_sum(keys + values)
    of_states, of_embedded = tape.gradient(total, [states, embedded])
    of_values = np.sqrt(0.5) * np.sqrt(4)
    np.testing.assert_allclose(of_states, np.full((2, 4, 6), (1 + of_values) / 5), rtol=1e-5)
    np.testing.assert_allclose(of_embedded, np.full((2, 4, 6), of_values), rtol=1e-5)


def test_encoder_block_preserves_the_variance(random):
    layer, inputs = ConvolutionalEncoderBlock(3), normal(random, 4, 50, 256)
    assert np.std(layer(inputs)) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    "layer",
    [
        GatedConvolution(4, is_causal=True, dropout=0.1),
        ConvolutionalEncoderBlock(5, dropout=0.1),
        ConvolutionalDecoderBlock(5, dropout=0.1),
        EncoderKeysAndValues(3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_config_round_trip(layer):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
