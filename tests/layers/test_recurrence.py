"""Recurrent layers against NumPy: cells, both directions, and the decoder that attends."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import AttentionRecurrence, BidirectionalRecurrence
from keras_transformer.layers.recurrence import CELLS, make_cell
from tests.references import recurrence

LENGTHS = (5, 2, 0)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]

every_cell = pytest.mark.parametrize("cell", sorted(CELLS))


def with_random_weights(layer, random):
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


def normal(random, *shape):
    return random.normal(0, 1, shape).astype("float32")


@every_cell
def test_a_step_equals_numpy(cell, random):
    layer = make_cell(cell, 4)
    layer.build((None, 6))
    with_random_weights(layer, random)
    inputs, state = normal(random, 3, 6), tuple(normal(random, layer.parts, 3, 4))
    found = layer(inputs, state)
    kernel = recurrence.weights_of(layer)["kernel"]
    for row in range(3):
        expected = recurrence.advance(layer, inputs[row] @ kernel, [part[row] for part in state])
        for part, value in zip(found, expected, strict=True):
            np.testing.assert_allclose(part[row], value, atol=1e-5)


def test_a_new_lstm_keeps_what_it_has():
    layer = make_cell("lstm", 2)
    layer.build((None, 3))
    np.testing.assert_array_equal(layer.bias, [1, 1, 0, 0, 0, 0, 0, 0])


@every_cell
def test_both_directions_equal_numpy(cell, random):
    """Rows of mixed lengths; the padding is not zero, and does not count."""
    layer = BidirectionalRecurrence(8, cell)
    layer.build((None, None, 6))
    with_random_weights(layer, random)
    inputs = normal(random, 3, 5, 6)
    outputs = layer(inputs, mask=tf.constant(MASK))
    for row, length in enumerate(LENGTHS):
        expected = recurrence.bidirectional(layer, inputs[row, :length])
        np.testing.assert_allclose(outputs[row, :length], expected, atol=1e-5)
    whole = layer(inputs)
    np.testing.assert_allclose(whole[0], outputs[0], atol=1e-6)
    np.testing.assert_allclose(whole[1], recurrence.bidirectional(layer, inputs[1]), atol=1e-5)


def made(random, **settings):
    layer = AttentionRecurrence(6, **settings)
    layer.build((None, None, 6), (None, None, 6))
    return with_random_weights(layer, random)


@every_cell
@pytest.mark.parametrize("attention", ["additive", "scaled_dot_product"])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_the_decoder_equals_numpy(cell, attention, num_layers, random):
    layer = made(random, cell=cell, attention=attention, num_layers=num_layers)
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    outputs, weights = layer(inputs, memory, memory_mask=tf.constant(MASK[:2]), return_weights=True)
    for row, length in enumerate(LENGTHS[:2]):
        expected = recurrence.attention_recurrence(layer, inputs[row], memory[row, :length])
        np.testing.assert_allclose(outputs[row], expected[0], atol=1e-5)
        np.testing.assert_allclose(weights[row, :, :length], expected[1], atol=1e-5)
        assert not np.any(weights[row, :, length:])


@pytest.mark.parametrize("attention", ["additive", "scaled_dot_product"])
def test_hypotheses_share_a_memory(attention, random):
    """Two rows for each of the memory give what they give with a memory each, prepared or not."""
    layer = made(random, attention=attention)
    inputs, memory = normal(random, 4, 1, 6), normal(random, 2, 5, 6)
    mask = tf.constant(MASK[:2])
    twice = np.repeat(memory, 2, axis=0), tf.repeat(mask, 2, axis=0)
    state = layer.initial_state(*twice)
    alone = layer(inputs, twice[0], state=state, memory_mask=twice[1], return_weights=True)
    shared = layer(inputs, memory, state=state, memory_mask=mask, return_weights=True)
    kept = layer.prepare_memory(memory, mask)
    prepared = layer(inputs, prepared_memory=kept, state=state, return_weights=True)
    for found in (shared, prepared):
        for one, other in zip(tf.nest.flatten(alone), tf.nest.flatten(found), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_dropout_is_the_same_in_all_steps_of_a_sequence(random):
    layer = made(random, dropout=0.5)
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    np.testing.assert_array_equal(layer(inputs, memory), layer(inputs, memory))
    is_dropped = layer(inputs, memory, training=True).numpy() == 0
    assert 0 < is_dropped.mean() < 1
    np.testing.assert_array_equal(is_dropped, np.repeat(is_dropped[:, :1], 4, axis=1))
    assert not np.array_equal(is_dropped, layer(inputs, memory, training=True).numpy() == 0)


@pytest.mark.parametrize("layer", [BidirectionalRecurrence(8, "gru"), AttentionRecurrence(8, 2)])
def test_configs_round_trip(layer):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_bad_settings():
    with pytest.raises(ValueError, match="`cell` must be one of 'gru', 'lstm'; got 'rnn'"):
        BidirectionalRecurrence(8, "rnn")
    with pytest.raises(ValueError, match=r"`width` must be even; got 7\. Use width=6 or 8"):
        BidirectionalRecurrence(7)
    with pytest.raises(ValueError, match="'alibi' cannot attend from one sequence to another"):
        AttentionRecurrence(8, attention="alibi")
    with pytest.raises(ValueError, match=r"`memory` must have the width 8 .*; got \(None, 3, 4\)"):
        AttentionRecurrence(8)(keras.Input((3, 8)), keras.Input((3, 4)))
