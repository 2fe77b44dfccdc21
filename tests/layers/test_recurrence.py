"""Tests of the recurrent layers against NumPy: cells, both directions, attention."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MECHANISMS, AttentionRNN, BidirectionalRNN
from keras_transformer.layers.recurrence import CELLS, make_cell
from tests.references import recurrence
from tests.references.mechanisms import settings_of

LENGTHS = (5, 2, 0)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]

# The mechanisms that can attend to a source and use coverage.
COVERAGE_MECHANISMS = {
    name: kind(**settings_of(name))
    for name, kind in sorted(MECHANISMS.items())
    if kind.supports_cross and kind.supports_cache and kind.supports_coverage
}

every_cell = pytest.mark.parametrize("cell", sorted(CELLS))


def with_random_weights(layer, random):
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return layer


def normal(random, *shape):
    return random.normal(0, 1, shape).astype("float32")


@every_cell
def test_cell_equals_numpy(cell, random):
    layer = make_cell(cell, 4)
    layer.build((None, 6))
    with_random_weights(layer, random)
    inputs, state = normal(random, 3, 6), tuple(normal(random, layer.num_states, 3, 4))
    found = layer(inputs, state)
    kernel = recurrence.weights_of(layer)["kernel"]
    for row in range(3):
        expected = recurrence.step(layer, inputs[row] @ kernel, [part[row] for part in state])
        for part, value in zip(found, expected, strict=True):
            np.testing.assert_allclose(part[row], value, atol=1e-5)


def test_new_lstm_has_forget_bias_one():
    layer = make_cell("lstm", 2)
    layer.build((None, 3))
    np.testing.assert_array_equal(layer.bias, [1, 1, 0, 0, 0, 0, 0, 0])


@every_cell
def test_bidirectional_rnn_equals_numpy(cell, random):
    """Rows have different lengths; padding has values other than zero, which have no effect."""
    layer = BidirectionalRNN(8, cell)
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


def make_layer(random, **settings):
    layer = AttentionRNN(6, **settings)
    layer.build((None, None, 6), (None, None, 6))
    return with_random_weights(layer, random)


@pytest.mark.parametrize(
    "settings",
    [
        {"cell": "lstm"},
        {"cell": "gru"},
        {"cell": "lstm", "num_layers": 2},
        {"cell": "gru", "num_layers": 2, "coverage_attention": True},
        *({"attention": name, "coverage_attention": True} for name in COVERAGE_MECHANISMS),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_attention_rnn_equals_numpy(settings, random):
    attention = COVERAGE_MECHANISMS[settings.get("attention", "scaled_dot_product")]
    layer = make_layer(random, **{**settings, "attention": attention})
    inputs, source = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    outputs, weights = layer(
        inputs, source, encoder_outputs_mask=tf.constant(MASK[:2]), return_attention_scores=True
    )
    for row, length in enumerate(LENGTHS[:2]):
        expected = recurrence.attention_rnn(layer, inputs[row], source[row, :length])
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
def test_hypotheses_with_a_shared_source_equal_repeated_sources(settings, jit, random):
    """The shared source is given as encoder outputs and precomputed."""
    layer = make_layer(random, **settings)
    source, mask = normal(random, 2, 5, 6), tf.constant(MASK[:2])
    twice = np.repeat(source, 2, axis=0), tf.repeat(mask, 2, axis=0)
    step = tf.function(layer, jit_compile=jit)
    alone = shared = precomputed = layer.initial_state(*twice)
    for _ in range(3):
        inputs = normal(random, 4, 1, 6)
        of_two = {"encoder_outputs": source, "encoder_outputs_mask": mask}
        of_four = {"encoder_outputs": twice[0], "encoder_outputs_mask": twice[1]}
        given = {"source": layer.precompute_source(source, mask)}
        *expected, alone = step(inputs, state=alone, return_attention_scores=True, **of_four)
        *outputs, shared = step(inputs, state=shared, return_attention_scores=True, **of_two)
        *others, precomputed = step(
            inputs, state=precomputed, return_attention_scores=True, **given
        )
        for found in ([outputs, shared], [others, precomputed]):
            pairs = zip(tf.nest.flatten([expected, alone]), tf.nest.flatten(found), strict=True)
            for one, other in pairs:
                np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("attention", COVERAGE_MECHANISMS)
def test_new_layer_with_coverage_equals_layer_without(attention, random):
    layer, plain = (
        AttentionRNN(6, attention=COVERAGE_MECHANISMS[attention], coverage_attention=has_coverage)
        for has_coverage in (True, False)
    )
    layer.build((None, None, 6), (None, None, 6))
    plain.build((None, None, 6), (None, None, 6))
    (coverage_vector,) = (weight for weight in layer.weights if weight.name == "coverage_vector")
    plain.set_weights([weight for weight in layer.weights if weight is not coverage_vector])
    inputs, source = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    np.testing.assert_array_equal(layer(inputs, source), plain(inputs, source))
    coverage_vector.assign(normal(random, 6))
    changed = layer(inputs, source).numpy() != plain(inputs, source).numpy()
    assert not np.any(changed[:, 0])  # no coverage yet
    assert np.all(np.any(changed[:, 1:], axis=-1))


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
@pytest.mark.parametrize("attention", COVERAGE_MECHANISMS)
def test_every_weight_with_coverage_has_a_gradient_at_the_start(attention, dtype, random):
    """The coverage vector is still 0. In mixed precision only the coverage is float32."""
    layer = AttentionRNN(
        6, attention=COVERAGE_MECHANISMS[attention], coverage_attention=True, dtype=dtype
    )
    inputs, source = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    layer(inputs, source)
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(inputs, source), tf.float32) ** 2)
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        assert np.all(np.isfinite(gradient)), variable.name
        assert np.any(gradient), variable.name
    _, state = layer(inputs, source, state=layer.initial_state(source))
    coverage = state.pop("coverage")
    assert coverage.dtype == tf.float32
    np.testing.assert_allclose(np.sum(coverage, axis=-1), 4, atol=1e-2)
    others = tf.nest.flatten([state, layer.precompute_source(source).key])
    assert {tensor.dtype for tensor in others} == {tf.as_dtype(layer.compute_dtype)}


def test_padding_has_no_coverage_and_no_effect(random):
    layer = make_layer(random, attention="additive", coverage_attention=True)
    inputs, source = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    mask = tf.constant(MASK[:2])

    def run(source):
        return layer(
            inputs, source, state=layer.initial_state(source, mask), encoder_outputs_mask=mask
        )

    outputs, state = run(source)
    assert not np.any(state["coverage"].numpy()[~MASK[:2]])
    others, _ = run(np.where(MASK[:2, :, None], source, source + 5))
    np.testing.assert_array_equal(outputs, others)


def test_dropout_mask_is_equal_in_all_steps(random):
    layer = make_layer(random, dropout=0.5)
    inputs, source = normal(random, 2, 4, 6), normal(random, 2, 5, 6)
    np.testing.assert_array_equal(layer(inputs, source), layer(inputs, source))
    is_dropped = layer(inputs, source, training=True).numpy() == 0
    assert 0 < is_dropped.mean() < 1
    np.testing.assert_array_equal(is_dropped, np.repeat(is_dropped[:, :1], 4, axis=1))
    assert not np.array_equal(is_dropped, layer(inputs, source, training=True).numpy() == 0)


@pytest.mark.parametrize(
    "layer",
    [
        BidirectionalRNN(8, "gru"),
        AttentionRNN(8, 2),
        AttentionRNN(8, attention="additive", coverage_attention=True),
    ],
)
def test_config_round_trip(layer):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_invalid_arguments_raise_value_error():
    with pytest.raises(ValueError, match=r"`cell`.*'gru'.*'no_such'"):
        BidirectionalRNN(8, "no_such")
    with pytest.raises(ValueError, match=r"`hidden_dim`.*even; got 7.*6 or 8"):
        BidirectionalRNN(7)
    with pytest.raises(ValueError, match=r"'alibi'.*cross-attention"):
        AttentionRNN(8, attention="alibi")
    with pytest.raises(ValueError, match=r"'location_based'.*coverage.*'additive'.*'chunked'"):
        AttentionRNN(8, attention="location_based", coverage_attention=True)
    with pytest.raises(ValueError, match=r"`coverage_attention`.*got 1"):
        AttentionRNN(8, coverage_attention=1)
    with pytest.raises(ValueError, match=r"`encoder_outputs`.*8.*got \(None, 3, 4\)"):
        AttentionRNN(8)(keras.Input((3, 8)), keras.Input((3, 4)))
