"""Recurrent layers against NumPy: cells, both directions, and the decoder that attends."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MECHANISMS, AttentionRecurrence, BidirectionalRecurrence
from keras_transformer.layers.recurrence import CELLS, make_cell
from tests.references import recurrence
from tests.references.mechanisms import settings_of

LENGTHS = (5, 2, 0)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]

# The mechanisms that look at a memory's keys, and so at what marks them.
KEY_READERS = {
    name: kind(**settings_of(name))
    for name, kind in sorted(MECHANISMS.items())
    if kind.supports_cross and kind.supports_cache and kind.reads_keys
}

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


@pytest.mark.parametrize(
    "settings",
    [
        {"cell": "lstm"},
        {"cell": "gru"},
        {"cell": "lstm", "num_layers": 2},
        {"cell": "gru", "num_layers": 2, "coverage_attention": True},
        *({"attention": name, "coverage_attention": True} for name in KEY_READERS),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@pytest.mark.parametrize("jit", [False, True])
def test_the_decoder_equals_numpy(settings, jit, random):
    attention = KEY_READERS[settings.get("attention", "scaled_dot_product")]
    layer = made(random, **{**settings, "attention": attention})
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    run = tf.function(layer, jit_compile=jit)
    outputs, weights = run(
        inputs, memory, memory_mask=tf.constant(MASK[:2]), return_attention_scores=True
    )
    for row, length in enumerate(LENGTHS[:2]):
        expected = recurrence.attention_recurrence(layer, inputs[row], memory[row, :length])
        np.testing.assert_allclose(outputs[row], expected[0], atol=1e-5)
        np.testing.assert_allclose(weights[row, :, :length], expected[1], atol=1e-5)
        assert not np.any(weights[row, :, length:])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attention": "additive"},
        {"coverage_attention": True},
        {"attention": "additive", "coverage_attention": True},
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_hypotheses_share_a_memory(settings, jit, random):
    """Two rows for each of the memory give what they give with a memory each, prepared or not."""
    layer = made(random, **settings)
    memory, mask = normal(random, 2, 5, 6), tf.constant(MASK[:2])
    twice = np.repeat(memory, 2, axis=0), tf.repeat(mask, 2, axis=0)
    step = tf.function(layer, jit_compile=jit)
    alone = shared = prepared = layer.initial_state(*twice)
    for _ in range(3):
        inputs = normal(random, 4, 1, 6)
        of_two = {"memory": memory, "memory_mask": mask}
        of_four = {"memory": twice[0], "memory_mask": twice[1]}
        kept = {"prepared_memory": layer.prepare_memory(memory, mask)}
        *expected, alone = step(inputs, state=alone, return_attention_scores=True, **of_four)
        *outputs, shared = step(inputs, state=shared, return_attention_scores=True, **of_two)
        *others, prepared = step(inputs, state=prepared, return_attention_scores=True, **kept)
        for found in ([outputs, shared], [others, prepared]):
            pairs = zip(tf.nest.flatten([expected, alone]), tf.nest.flatten(found), strict=True)
            for one, other in pairs:
                np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("attention", KEY_READERS)
def test_a_new_layer_is_the_one_without_coverage(attention, random):
    layer, plain = (
        AttentionRecurrence(6, attention=KEY_READERS[attention], coverage_attention=has_coverage)
        for has_coverage in (True, False)
    )
    layer.build((None, None, 6), (None, None, 6))
    plain.build((None, None, 6), (None, None, 6))
    (mark,) = (weight for weight in layer.weights if weight.name == "coverage_mark")
    plain.set_weights([weight for weight in layer.weights if weight is not mark])
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    np.testing.assert_array_equal(layer(inputs, memory), plain(inputs, memory))
    mark.assign(normal(random, 6))
    changed = layer(inputs, memory).numpy() != plain(inputs, memory).numpy()
    assert not np.any(changed[:, 0])  # nothing is covered yet
    assert np.all(np.any(changed[:, 1:], axis=-1))


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
@pytest.mark.parametrize("attention", KEY_READERS)
def test_coverage_is_learned_from_the_first_step_on(attention, dtype, random):
    """Every weight gets a gradient while the mark is still 0. Coverage alone is float32."""
    layer = AttentionRecurrence(
        6, attention=KEY_READERS[attention], coverage_attention=True, dtype=dtype
    )
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    layer(inputs, memory)
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(inputs, memory), tf.float32) ** 2)
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        assert np.all(np.isfinite(gradient)), variable.name
        assert np.any(gradient), variable.name
    _, state = layer(inputs, memory, state=layer.initial_state(memory))
    coverage = state.pop("coverage")
    assert coverage.dtype == tf.float32
    np.testing.assert_allclose(np.sum(coverage, axis=-1), 4, atol=1e-2)
    others = tf.nest.flatten([state, layer.prepare_memory(memory).key])
    assert {tensor.dtype for tensor in others} == {tf.as_dtype(layer.compute_dtype)}


def test_padding_covers_nothing_and_is_never_seen(random):
    layer = made(random, attention="additive", coverage_attention=True)
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    mask = tf.constant(MASK[:2])

    def run(memory):
        return layer(inputs, memory, state=layer.initial_state(memory, mask), memory_mask=mask)

    outputs, state = run(memory)
    assert not np.any(state["coverage"].numpy()[~MASK[:2]])
    others, _ = run(np.where(MASK[:2, :, None], memory, memory + 5))
    np.testing.assert_array_equal(outputs, others)


def test_dropout_is_the_same_in_all_steps_of_a_sequence(random):
    layer = made(random, dropout=0.5)
    inputs, memory = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    np.testing.assert_array_equal(layer(inputs, memory), layer(inputs, memory))
    is_dropped = layer(inputs, memory, training=True).numpy() == 0
    assert 0 < is_dropped.mean() < 1
    np.testing.assert_array_equal(is_dropped, np.repeat(is_dropped[:, :1], 4, axis=1))
    assert not np.array_equal(is_dropped, layer(inputs, memory, training=True).numpy() == 0)


@pytest.mark.parametrize(
    "layer",
    [
        BidirectionalRecurrence(8, "gru"),
        AttentionRecurrence(8, 2),
        AttentionRecurrence(8, attention="additive", coverage_attention=True),
    ],
)
def test_configs_round_trip(layer):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_bad_settings():
    with pytest.raises(ValueError, match="`cell` must be one of 'gru', 'lstm'; got 'rnn'"):
        BidirectionalRecurrence(8, "rnn")
    with pytest.raises(
        ValueError, match=r"`hidden_dim` must be even; got 7\. Use hidden_dim=6 or 8"
    ):
        BidirectionalRecurrence(7)
    with pytest.raises(ValueError, match="'alibi' cannot attend from one sequence to another"):
        AttentionRecurrence(8, attention="alibi")
    with pytest.raises(
        ValueError,
        match=r"'location_based' cannot see what marks a key .* Use one of 'additive', 'chunked', ",
    ):
        AttentionRecurrence(8, attention="location_based", coverage_attention=True)
    with pytest.raises(ValueError, match="`coverage_attention` must be True or False; got 1"):
        AttentionRecurrence(8, coverage_attention=1)
    with pytest.raises(ValueError, match=r"`memory` must have the width 8 .*; got \(None, 3, 4\)"):
        AttentionRecurrence(8)(keras.Input((3, 8)), keras.Input((3, 4)))
