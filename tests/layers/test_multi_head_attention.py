"""What is particular to `MultiHeadAttention`.

`test_multi_head_attention_equals_keras.py` compares it with Keras, and `tests/contracts` tests it
with every mechanism.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import (
    MECHANISMS,
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    Pooling,
    ShawAttention,
    TokenEmbedding,
)

B, T, M, H = 2, 5, 12, 3


def test_implicit_masks_hide_padding_in_a_functional_model(random):
    """Embeddings with `mask_zero` hide their padding, in self- and in cross-attention."""
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embedding = keras.layers.Embedding(9, M, mask_zero=True)
    x = MultiHeadAttention(H)(embedding(target))
    model = keras.Model([source, target], MultiHeadAttention(H)(x, embedding(source)))
    before = model([np.array([[1, 2, 3]]), np.array([[4, 5]])])
    after = model([np.array([[1, 2, 3, 0, 0]]), np.array([[4, 5, 0]])])
    np.testing.assert_allclose(after[:, :2], before, atol=1e-6)
    assert after._keras_mask.numpy().tolist() == [[True, True, False]]


def test_key_mask_and_attention_mask_are_combined(random):
    layer = MultiHeadAttention(H)
    x = random.normal(0, 1, (1, 3, M)).astype("float32")
    _, weights = layer(
        x,
        query_mask=tf.constant([[True, True, False]]),
        attention_mask=tf.constant([[[False, True, True]]]),
        return_attention_scores=True,
    )
    np.testing.assert_allclose(weights[0, :, :, 1], 1)


def test_attention_mask_can_differ_between_heads(random):
    layer = MultiHeadAttention(2)
    x = random.normal(0, 1, (1, 3, M)).astype("float32")
    mask = np.zeros((1, 2, 1, 3), bool)
    mask[0, 0, 0, 0] = mask[0, 1, 0, 2] = True
    _, weights = layer(x, attention_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(weights[0, 0, :, 0], 1)
    np.testing.assert_allclose(weights[0, 1, :, 2], 1)


def test_key_dim_can_differ_from_hidden_dim_over_num_heads(random):
    layer = MultiHeadAttention(num_heads=5, key_dim=4)
    assert layer(random.normal(0, 1, (B, T, M)).astype("float32")).shape == (B, T, M)
    assert layer.query_projection.units == 20


def test_dropout_acts_in_training_only(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    layer = MultiHeadAttention(H, dropout=0.5)
    np.testing.assert_array_equal(layer(x), layer(x))
    assert not np.array_equal(layer(x, training=True), layer(x, training=True))


def test_mechanism_instance_keeps_its_settings():
    layer = MultiHeadAttention(H, mechanism=ShawAttention(max_distance=3), dropout=0.1)
    assert layer.mechanism.max_distance == 3
    assert layer.mechanism.dropout == 0.1
    block = EncoderBlock(H, 8, attention=ShawAttention(max_distance=3))
    assert EncoderBlock.from_config(block.get_config()).self_attention.mechanism.max_distance == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_heads": 5},
            "`hidden_dim` must be divisible by num_heads=5; got 12",
        ),
        ({"num_heads": 5}, "Use hidden_dim=10 or 15, or another num_heads"),
        ({"num_heads": 0}, "`num_heads` must be a whole number of at least 1; got 0"),
        ({"num_key_value_heads": 2}, "`num_heads` must be divisible by num_key_value_heads="),
        ({"num_key_value_heads": 0}, "`num_key_value_heads` must be a whole number of at least 1"),
        ({"use_bias": "no"}, "`use_bias` must be True or False; got 'no'"),
        (
            {"num_heads": 4, "mechanism": "rotary"},
            "`key_dim` must be even; got 3",
        ),
        ({"dropout": 1.0}, r"`dropout` must be a number in \[0, 1\); got 1.0"),
        ({"dropout": -0.1}, r"`dropout` must be a number in \[0, 1\); got -0.1"),
        ({"mechanism": "rotery"}, "one of .*'alibi', .*; got 'rotery'. Did you mean 'rotary'?"),
        ({"mechanism": 3}, "`mechanism` must be one of"),
        ({"key_dim": 0}, "`key_dim` must be a whole number of at least 1; got 0"),
        ({"value_dim": -1}, "`value_dim` must be a whole number of at least 1; got -1"),
        ({"output_shape": (3, 0)}, r"`output_shape` must be .*; got \(3, 0\)"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": H, **arguments})(keras.Input((T, M)))


def test_bad_attention_masks_are_errors():
    layer, x = MultiHeadAttention(H), keras.Input((T, M))
    padding = keras.Input((T,), dtype="bool")
    with pytest.raises(ValueError, match=r"`attention_mask`.*\(None, 5\).*mask\[:, None, :\]"):
        layer(x, attention_mask=padding)
    with pytest.raises(
        ValueError, match=r"\[B, T, S\] or \[B, H, T, S\]; got \(None, 5, 5, 5, 5\)"
    ):
        layer(x, attention_mask=keras.Input((5, 5, 5, 5), dtype="bool"))
    with pytest.raises(ValueError, match=r"`attention_mask` must be boolean.*float32"):
        layer(x, attention_mask=keras.Input((T, T)))


@pytest.mark.parametrize("shape", [(B, T, 4), (B, 3, T), (B + 1, T, T), (B, 2, T, T)])
def test_attention_mask_of_another_shape_is_an_error(shape):
    x = np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`attention_mask` must be broadcastable to \(2, .*; got"):
        MultiHeadAttention(H)(x, attention_mask=np.ones(shape, bool))


@pytest.mark.parametrize("shape", [(B, T, 4), (B, 3, T), (B + 1, T, T)])
def test_relations_of_another_shape_are_an_error(shape):
    x = np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`relations` must be broadcastable to \(2, 5, 5\), "):
        MultiHeadAttention(H, mechanism="structural")(x, relations=np.zeros(shape, int))


def test_relations_that_are_no_integers_are_an_error():
    layer, x = MultiHeadAttention(H, mechanism="structural"), keras.Input((T, M))
    with pytest.raises(ValueError, match=r"`relations` must be integers.*float32"):
        layer(x, relations=keras.Input((T, T)))


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_relations_of_any_integer_type_give_the_same(dtype, random):
    layer = MultiHeadAttention(H, mechanism="structural")
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    relations = random.integers(-3, 4, (B, T, T))
    expected = layer(x, relations=relations.astype("int32"))
    np.testing.assert_array_equal(layer(x, relations=relations.astype(dtype)), expected)


@pytest.mark.parametrize("mechanism", ["shaw", "structural"])
def test_distance_tables_of_keys_and_values_start_different(mechanism):
    layer = MultiHeadAttention(H, mechanism=mechanism)
    layer(np.zeros((B, T, M), "float32"))
    tables = layer.mechanism.key_distances.numpy(), layer.mechanism.value_distances.numpy()
    assert np.abs(np.corrcoef(*map(np.ravel, tables))[0, 1]) < 0.5


def test_attention_mask_beside_a_cross_attention_cache_is_as_wide_as_its_keys(random):
    layer, keys = MultiHeadAttention(H), 7
    query = random.normal(0, 1, (B, T, M)).astype("float32")
    value = random.normal(0, 1, (B, keys, M)).astype("float32")
    mask = random.random((B, T, keys)) < 0.7
    expected = layer(query, value, attention_mask=mask)
    cache = layer.cross_attention_cache(value)
    outputs = layer(query, cross_attention_cache=cache, attention_mask=mask)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_cross_attention_cache_takes_a_key_and_both_masks(random):
    layer = MultiHeadAttention(H)
    query, value, key = random.normal(0, 1, (3, B, T, M)).astype("float32")
    masks = dict(zip(["value_mask", "key_mask"], random.random((2, B, T)) < 0.8, strict=True))
    expected = layer(query, value, key, **masks)
    cache = layer.cross_attention_cache(value, key=key, **masks)
    np.testing.assert_allclose(layer(query, cross_attention_cache=cache), expected, atol=1e-6)


def test_constructor_arguments_are_attributes_that_building_does_not_change():
    layer = MultiHeadAttention(num_heads=H)
    before = layer.get_config()
    layer.build((B, T, M))
    assert layer.get_config() == before
    assert layer.key_dim is layer.value_dim is layer.num_key_value_heads is None
    other = MultiHeadAttention(4, 6, value_dim=5, num_key_value_heads=2, dropout=0.2)
    assert (other.num_heads, other.key_dim, other.value_dim) == (4, 6, 5)
    assert (other.num_key_value_heads, other.dropout, other.use_bias) == (2, 0.2, True)


@pytest.mark.parametrize("max_length", [None, T])
def test_cached_steps_with_value_dim_and_output_shape_equal_the_full_pass(max_length, random):
    layer = MultiHeadAttention(H, 4, 5, output_shape=6)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    expected = layer(x, use_causal_mask=True)
    cache, outputs = layer.initial_cache(B, max_length), []
    for t in range(T):
        output, cache = layer(x[:, t : t + 1], cache=cache, use_causal_mask=True)
        outputs.append(output)
    np.testing.assert_allclose(tf.concat(outputs, axis=1), expected, atol=1e-5)


def test_bad_ranks_are_errors():
    layer, x = MultiHeadAttention(H), np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`query`.*\[B, T, M\]; got \(2, 12\)"):
        layer(np.zeros((2, M), "float32"))
    with pytest.raises(ValueError, match=r"`value`.*\[B, S, N\]; got \(2, 12\)"):
        layer(x, np.zeros((2, M), "float32"))
    with pytest.raises(ValueError, match=r"`query`.*None, None\)"):
        MultiHeadAttention(H)(keras.Input((None, None)))


def test_arguments_that_exclude_each_other_are_errors():
    layer, x = MultiHeadAttention(H), np.zeros((B, T, M), "float32")
    layer(x)
    with pytest.raises(ValueError, match="`key` needs a `value`"):
        layer(x, key=x + 1)
    with pytest.raises(ValueError, match=r"`cache`.*`cross_attention_cache`"):
        layer(x, x + 1, cache=layer.initial_cache(B))


@pytest.mark.parametrize(
    "mechanism", sorted(name for name, kind in MECHANISMS.items() if kind.supports_cache)
)
def test_growing_cache_equals_fixed_cache(mechanism, random):
    """Outputs and weights; two positions at first, one of them padding, then one by one."""
    layer = MultiHeadAttention(2, num_key_value_heads=1, mechanism=mechanism)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    layer.build(x.shape)
    fixed, growing = layer.initial_cache(B, T + 1), layer.initial_cache(B, None)
    start = 0
    for end in range(2, T + 1):
        mask = tf.constant([[True, False], [True, True]]) if start == 0 else None
        settings = {"use_causal_mask": True, "return_attention_scores": True}
        expected, expected_weights, fixed = layer(
            x[:, start:end], query_mask=mask, cache=fixed, **settings
        )
        outputs, weights, growing = layer(
            x[:, start:end], query_mask=mask, cache=growing, **settings
        )
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        np.testing.assert_allclose(weights, expected_weights[..., :end], atol=1e-5)
        assert not np.any(expected_weights[..., end:])
        np.testing.assert_array_equal(growing.key, fixed.key[:, :, :end])
        start = end


def test_caches_need_a_built_layer():
    layer = MultiHeadAttention(H, name="some")
    for make in (
        lambda: layer.initial_cache(2),
        lambda: layer.cross_attention_cache(tf.zeros((B, T, M))),
    ):
        with pytest.raises(ValueError, match=r"'some' has not been built.* Call it once"):
            make()


def test_explicit_mask_replaces_the_implicit_mask(random):
    x = TokenEmbedding(9, M)(np.array([[1, 2, 0]]))
    explicit = tf.constant([[True, False, True]])
    layer = MultiHeadAttention(H)
    _, weights = layer(x, mask=explicit, return_attention_scores=True)
    assert not np.any(weights.numpy()[..., 1])
    assert np.all(weights.numpy()[..., 2] > 0)
    for other in (EncoderBlock(H, 8), DecoderBlock(H, 8), Pooling()):
        with_mask, without = other(x, mask=explicit), other(x)
        assert not np.allclose(with_mask, without)
