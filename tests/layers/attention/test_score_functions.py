"""Tests of single score functions; tests of all mechanisms are in contracts/."""

import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import (
    MECHANISMS,
    AdditiveAttention,
    ContentBasedAttention,
    DotProductAttention,
    GeneralAttention,
    LocationBasedAttention,
    MultiHeadAttention,
)

SCORE_FUNCTIONS = [
    "additive",
    "content_based",
    "dot_product",
    "general",
    "location_based",
    "scaled_dot_product",
]


@pytest.mark.parametrize("name", SCORE_FUNCTIONS)
def test_one_head_and_one_query_per_step_equal_the_numpy_reference(name, random):
    """As in a recurrent decoder: keys are values, some of them padding."""
    mechanism = MECHANISMS[name]()
    states, source = random.normal(0, 1, (3, 1, 2, 6)), random.normal(0, 1, (3, 1, 5, 6))
    mask = (np.arange(5) < np.array([[5], [3], [1]]))[:, None, None]  # [B, 1, 1, S]
    step = tf.function(lambda t, m: mechanism(t, m, m, mask, return_attention_scores=True))
    source_tensor = tf.constant(source, tf.float32)
    steps = [step(tf.constant(states[:, :, t : t + 1], tf.float32), source_tensor) for t in (0, 1)]
    context, weights = (np.concatenate(parts, axis=2) for parts in zip(*steps, strict=True))

    own = {variable.name: variable.numpy() for variable in mechanism.trainable_variables}
    reference = importlib.import_module(f"tests.references.mechanisms.{name}").attend
    visible = np.broadcast_to(mask, (3, 1, 2, 5))
    expected = reference(states, source, source, visible, 0, own)
    np.testing.assert_allclose(context, expected[0], atol=1e-5)
    np.testing.assert_allclose(weights, expected[1], atol=1e-5)


@pytest.mark.parametrize(
    ("mechanism", "kernel", "deviation"),
    [
        (GeneralAttention(), "kernel", (2 / 64) ** 0.5),
        (AdditiveAttention(units=96), "key_kernel", (2 / (32 + 96)) ** 0.5),
        (LocationBasedAttention(max_length=200), "kernel", (1 / 32) ** 0.5),
    ],
    ids=["general", "additive", "location_based"],
)
def test_initial_kernels_have_the_variance_of_a_single_head(mechanism, kernel, deviation):
    """Glorot and Bengio 2010, equation 16; for location-based attention, only the inputs count."""
    mechanism.build(*[(None, 8, None, 32)] * 3)
    values = getattr(mechanism, kernel).numpy()
    assert values.std() == pytest.approx(deviation, rel=0.05)
    assert not np.array_equal(values[0], values[1])


def test_dot_product_does_not_overflow_in_float16():
    """60 · 60 · 64 exceeds the largest float16, 65,504."""
    states = tf.fill([1, 1, 2, 64], 60.0)
    _, weights = DotProductAttention(dtype="mixed_float16")(
        states, states, states, return_attention_scores=True
    )
    np.testing.assert_array_equal(weights, np.full((1, 1, 2, 2), 0.5))


# --- content-based --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "dtype", "jit"),
    [
        (0.0, "float32", False),
        (0.0, "float32", True),
        (0.0, "mixed_float16", False),
        (1e-25, "float32", False),
        (1e-3, "float32", False),
    ],
)
def test_vectors_of_length_zero_have_score_zero_and_finite_gradients(length, dtype, jit, random):
    mechanism = ContentBasedAttention(dtype=dtype)
    mechanism.build(*[(None, 1, None, 6)] * 3)
    query, value = (tf.constant(random.normal(0, 1, (1, 1, 4, 6)), tf.float32) for _ in range(2))
    key = tf.constant([[[np.eye(6)[0] * length, *random.normal(0, 1, (3, 6))]]], tf.float32)

    @tf.function(jit_compile=jit)
    def gradients(query, key):
        sources = [query, key, *(v.value for v in mechanism.trainable_variables)]
        with tf.GradientTape() as tape:
            tape.watch([query, key])
            loss = tf.reduce_sum(tf.cast(mechanism(query, key, value), tf.float32) ** 2)
        return tape.gradient(loss, sources)

    assert np.all(mechanism.compute_scores(query, key, 0)[..., 0] == 0) == (length < 1e-6)
    for gradient in gradients(query, key):
        assert np.all(np.isfinite(gradient))


def test_content_based_scores_are_scaled_cosines(random):
    mechanism = ContentBasedAttention()
    query, key = (tf.constant(random.normal(0, 1, (2, 3, 4, 16)), tf.float32) for _ in range(2))
    _, weights = mechanism(query, key, key, return_attention_scores=True)
    _, scaled = mechanism(query * 50, key * 0.01, key, return_attention_scores=True)
    np.testing.assert_allclose(weights, scaled, atol=1e-5)
    np.testing.assert_allclose(mechanism.compute_scores(query, query, 0)[0, 0, 0, 0], 4, rtol=1e-5)


# --- location-based -------------------------------------------------------------------------------

TOO_MANY = r"positions 0 to 3 \(max_length=4\)"


def test_location_based_with_more_keys_than_max_length_raises():
    mechanism = LocationBasedAttention(max_length=4, name="positions")
    query, key = tf.ones([1, 2, 1, 6]), tf.ones([1, 2, 5, 6])
    mechanism(query, key[:, :, :4], key[:, :, :4])
    with pytest.raises(ValueError, match=f"{TOO_MANY}.*: 5"):
        mechanism(query, key, key)
    with pytest.raises(ValueError, match="more keys: 5"):
        tf.function(mechanism, jit_compile=True)(query, key, key)
    unknown = tf.TensorSpec([1, 2, None, 6])
    in_graph = tf.function(lambda key: mechanism(query, key, key), input_signature=[unknown])
    assert in_graph(key[:, :, :3]).shape == (1, 2, 1, 6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=TOO_MANY):
        in_graph(key)


def test_location_based_with_a_cache_larger_than_max_length_raises():
    layer = MultiHeadAttention(2, mechanism=LocationBasedAttention(max_length=4))
    layer.build((None, None, 12))
    x = tf.ones([1, 1, 12])
    layer(x, cache=layer.initial_cache(1, 4), use_causal_mask=True)
    with pytest.raises(ValueError, match="more keys: 5"):
        layer(x, cache=layer.initial_cache(1, 5), use_causal_mask=True)


def test_location_based_weights_do_not_depend_on_keys(random):
    mechanism = LocationBasedAttention(max_length=9)
    query, key = (tf.constant(random.normal(0, 1, (2, 3, 4, 6)), tf.float32) for _ in range(2))
    _, weights = mechanism(query, key, key, return_attention_scores=True)
    _, others = mechanism(query, key[::-1], key, return_attention_scores=True)
    np.testing.assert_array_equal(weights, others)


@pytest.mark.parametrize("name", SCORE_FUNCTIONS)
def test_config_round_trip(name):
    settings = {"additive": {"units": 3}, "location_based": {"max_length": 7}}.get(name, {})
    mechanism = MECHANISMS[name](dropout=0.1, **settings)
    config = keras.saving.serialize_keras_object(mechanism)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(mechanism)
    assert {**again.get_config(), **settings} == mechanism.get_config()


def test_invalid_arguments_raise_value_error():
    with pytest.raises(ValueError, match=r"`units`.*at least 1; got 0"):
        AdditiveAttention(units=0)
    with pytest.raises(ValueError, match=r"`max_length`.*got 2\.5"):
        LocationBasedAttention(max_length=2.5)


def test_location_based_has_no_key_projection(random):
    layer = MultiHeadAttention(2, mechanism="location_based")
    x = tf.constant(random.normal(0, 1, (2, 5, 12)), tf.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) ** 2)
    assert "key" not in {variable.path.split("/")[-2] for variable in layer.trainable_variables}
    assert None not in tape.gradient(loss, [v.value for v in layer.trainable_variables])
