"""What is particular to the layer; what holds for every mechanism is in contracts/."""

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

B, T, S, M, H = 2, 5, 7, 12, 3


def copy_weights(ours, theirs):
    """Keras keeps heads apart, `[M, H, D]`; ours are side by side, `[M, H·D]`."""
    pairs = [
        (ours.query_projection, theirs._query_dense),
        (ours.key_projection, theirs._key_dense),
        (ours.value_projection, theirs._value_dense),
        (ours.output_projection, theirs._output_dense),
    ]
    for our_layer, their_layer in pairs:
        for our_weight, their_weight in zip(our_layer.weights, their_layer.weights, strict=True):
            our_weight.assign(tf.reshape(their_weight, our_weight.shape))


@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("is_cross", [False, True])
def test_equals_keras(use_causal_mask, is_masked, is_cross, random):
    query = random.normal(0, 1, (B, T, M)).astype("float32")
    memory = random.normal(0, 1, (B, S, M)).astype("float32") if is_cross else None
    key_length = S if is_cross else T
    attention_mask = random.random((B, T, key_length)) < 0.6
    attention_mask[..., 0] = True
    attention_mask = attention_mask if is_masked else None

    theirs = keras.layers.MultiHeadAttention(H, M // H, bias_initializer="random_normal")
    expected, expected_weights = theirs(
        query,
        memory if is_cross else query,
        attention_mask=attention_mask,
        use_causal_mask=use_causal_mask,
        return_attention_scores=True,
    )
    ours = MultiHeadAttention(H)
    ours.build((B, T, M), (B, S, M) if is_cross else None)
    copy_weights(ours, theirs)
    outputs, weights = ours(
        query,
        memory,
        attention_mask=attention_mask,
        use_causal_mask=use_causal_mask,
        return_attention_scores=True,
    )
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_fewer_key_heads_equal_keras_grouped_query_attention(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    theirs = keras.layers.GroupQueryAttention(
        head_dim=2, num_query_heads=6, num_key_value_heads=3, bias_initializer="random_normal"
    )
    expected = theirs(x, x, use_causal_mask=True)
    ours = MultiHeadAttention(6, num_key_value_heads=3)
    ours.build((B, T, M))
    copy_weights(ours, theirs)
    np.testing.assert_allclose(ours(x, use_causal_mask=True), expected, atol=1e-5)
    assert ours.key_projection.units == 6


def test_gradients_equal_keras(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    theirs = keras.layers.MultiHeadAttention(H, M // H)
    theirs(x, x)
    ours = MultiHeadAttention(H)
    ours.build((B, T, M))
    copy_weights(ours, theirs)
    gradients = []
    for layer, arguments in ((ours, (x,)), (theirs, (x, x))):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(*arguments) ** 2)
        gradients.append(tape.gradient(loss, [v.value for v in layer.trainable_variables]))
    for our_gradient, their_gradient in zip(*gradients, strict=True):
        their_gradient = tf.reshape(their_gradient, our_gradient.shape)
        np.testing.assert_allclose(our_gradient, their_gradient, atol=1e-4)


def test_implicit_masks_of_a_functional_model(random):
    """Embeddings with `mask_zero` hide their padding, in self- and in cross-attention."""
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embedding = keras.layers.Embedding(9, M, mask_zero=True)
    x = MultiHeadAttention(H)(embedding(target))
    model = keras.Model([source, target], MultiHeadAttention(H)(x, embedding(source)))
    before = model([np.array([[1, 2, 3]]), np.array([[4, 5]])])
    after = model([np.array([[1, 2, 3, 0, 0]]), np.array([[4, 5, 0]])])
    np.testing.assert_allclose(after[:, :2], before, atol=1e-6)
    assert after._keras_mask.numpy().tolist() == [[True, True, False]]


def test_both_masks_count(random):
    layer = MultiHeadAttention(H)
    x = random.normal(0, 1, (1, 3, M)).astype("float32")
    _, weights = layer(
        x,
        query_mask=tf.constant([[True, True, False]]),
        attention_mask=tf.constant([[[False, True, True]]]),
        return_attention_scores=True,
    )
    np.testing.assert_allclose(weights[0, :, :, 1], 1)


def test_a_mask_for_each_head(random):
    layer = MultiHeadAttention(2)
    x = random.normal(0, 1, (1, 3, M)).astype("float32")
    mask = np.zeros((1, 2, 1, 3), bool)
    mask[0, 0, 0, 0] = mask[0, 1, 0, 2] = True
    _, weights = layer(x, attention_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(weights[0, 0, :, 0], 1)
    np.testing.assert_allclose(weights[0, 1, :, 2], 1)


def test_integer_masks_are_taken_as_boolean(random):
    layer = MultiHeadAttention(H)
    x = random.normal(0, 1, (1, 3, M)).astype("float32")
    mask = np.array([[[1, 0, 1]]])
    np.testing.assert_array_equal(
        layer(x, attention_mask=mask), layer(x, attention_mask=mask.astype(bool))
    )


def test_head_width_of_ones_own(random):
    layer = MultiHeadAttention(num_heads=5, key_dim=4)
    assert layer(random.normal(0, 1, (B, T, M)).astype("float32")).shape == (B, T, M)
    assert layer.query_projection.units == 20


def test_dropout_acts_in_training_only(random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    layer = MultiHeadAttention(H, dropout=0.5)
    np.testing.assert_array_equal(layer(x), layer(x))
    assert not np.array_equal(layer(x, training=True), layer(x, training=True))


def test_an_instance_keeps_its_settings():
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
            "`hidden_dim` must be divisible by `num_heads`; got hidden_dim=12 and num_heads=5",
        ),
        ({"num_heads": 5}, "Use hidden_dim=10 or 15, or another num_heads"),
        ({"num_heads": 0}, "`num_heads` must be a whole number of at least 1; got 0"),
        ({"num_key_value_heads": 2}, "`num_heads` must be divisible by `num_key_value_heads`"),
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
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": H, **arguments})(keras.Input((T, M)))


def test_bad_masks():
    layer, x = MultiHeadAttention(H), keras.Input((T, M))
    padding = keras.Input((T,), dtype="bool")
    with pytest.raises(ValueError, match=r"\[B, T, S\] or \[B, H, T, S\]; got \(None, 5\). For a"):
        layer(x, attention_mask=padding)
    with pytest.raises(ValueError, match=r"pass mask\[:, None, :\], for one mask"):
        layer(x, attention_mask=padding)
    with pytest.raises(
        ValueError, match=r"\[B, T, S\] or \[B, H, T, S\]; got \(None, 5, 5, 5, 5\)"
    ):
        layer(x, attention_mask=keras.Input((5, 5, 5, 5), dtype="bool"))
    with pytest.raises(ValueError, match="must be boolean, True = attend; got float32"):
        layer(x, attention_mask=keras.Input((T, T)))


@pytest.mark.parametrize("shape", [(B, T, 4), (B, 3, T), (B + 1, T, T), (B, 2, T, T)])
def test_masks_of_another_shape(shape):
    x = np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`attention_mask` must be broadcastable to \(2, .*; got"):
        MultiHeadAttention(H)(x, attention_mask=np.ones(shape, bool))


@pytest.mark.parametrize("shape", [(B, T, 4), (B, 3, T), (B + 1, T, T)])
def test_relations_of_another_shape(shape):
    x = np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`relations` must be broadcastable to \(2, 5, 5\), "):
        MultiHeadAttention(H, mechanism="structural")(x, relations=np.zeros(shape, int))


def test_relations_that_are_no_numbers():
    layer, x = MultiHeadAttention(H, mechanism="structural"), keras.Input((T, M))
    with pytest.raises(ValueError, match=r"`relations` must be whole numbers, .* got float32"):
        layer(x, relations=keras.Input((T, T)))


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_relations_of_any_whole_numbers(dtype, random):
    layer = MultiHeadAttention(H, mechanism="structural")
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    relations = random.integers(-3, 4, (B, T, T))
    expected = layer(x, relations=relations.astype("int32"))
    np.testing.assert_array_equal(layer(x, relations=relations.astype(dtype)), expected)


@pytest.mark.parametrize("mechanism", ["shaw", "structural"])
def test_the_tables_of_keys_and_of_values_start_apart(mechanism):
    layer = MultiHeadAttention(H, mechanism=mechanism)
    layer(np.zeros((B, T, M), "float32"))
    tables = layer.mechanism.key_distances.numpy(), layer.mechanism.value_distances.numpy()
    assert np.abs(np.corrcoef(*map(np.ravel, tables))[0, 1]) < 0.5


def test_mask_for_a_projected_memory(random):
    """It is as wide as the memory, not as the queries."""
    layer, steps = MultiHeadAttention(H), 7
    query = random.normal(0, 1, (B, T, M)).astype("float32")
    memory = random.normal(0, 1, (B, steps, M)).astype("float32")
    mask = random.random((B, T, steps)) < 0.7
    expected = layer(query, memory, attention_mask=mask)
    outputs = layer(query, projected_memory=layer.project_memory(memory), attention_mask=mask)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_bad_query_and_memory():
    layer = MultiHeadAttention(H)
    with pytest.raises(ValueError, match=r"`query` must have shape \[B, T, M\]; got \(2, 12\)"):
        layer(np.zeros((2, M), "float32"))
    x = np.zeros((B, T, M), "float32")
    with pytest.raises(ValueError, match=r"`memory` must have shape \[B, S, N\]; got \(2, 12\)"):
        layer(x, np.zeros((2, M), "float32"))
    with pytest.raises(ValueError, match=r"last axis of `query` must be known.*None, None\)"):
        MultiHeadAttention(H)(keras.Input((None, None)))


@pytest.mark.parametrize(
    "mechanism", sorted(name for name, kind in MECHANISMS.items() if kind.supports_cache)
)
def test_a_cache_that_grows_is_one_with_room(mechanism, random):
    """Outputs and weights; two positions at first, one of them padding, then one by one."""
    layer = MultiHeadAttention(2, num_key_value_heads=1, mechanism=mechanism)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    layer.build(x.shape)
    fixed, growing = layer.initial_cache(B, T + 1), layer.initial_cache(B, None)
    start = 0
    for end in range(2, T + 1):
        mask = tf.constant([[True, False], [True, True]]) if start == 0 else None
        settings = {"offset": start, "use_causal_mask": True, "return_attention_scores": True}
        expected, expected_weights, fixed = layer(
            x[:, start:end], query_mask=mask, cache=fixed, **settings
        )
        outputs, weights, growing = layer(
            x[:, start:end], query_mask=mask, cache=growing, **settings
        )
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        np.testing.assert_allclose(weights, expected_weights[..., :end], atol=1e-5)
        assert not np.any(expected_weights[..., end:])
        np.testing.assert_array_equal(growing.key, fixed["key"][:, :, :end])
        start = end


def test_a_cache_needs_a_built_layer():
    with pytest.raises(ValueError, match=r"does not know its shapes yet\. Call it once"):
        MultiHeadAttention(H).initial_cache(2, 5)


def test_an_explicit_mask_comes_before_an_implicit_one(random):
    x = TokenEmbedding(9, M)(np.array([[1, 2, 0]]))
    explicit = tf.constant([[True, False, True]])
    layer = MultiHeadAttention(H)
    _, weights = layer(x, mask=explicit, return_attention_scores=True)
    assert not np.any(weights.numpy()[..., 1])
    assert np.all(weights.numpy()[..., 2] > 0)
    for other in (EncoderBlock(H, 8), DecoderBlock(H, 8), Pooling()):
        with_mask, without = other(x, mask=explicit), other(x)
        assert not np.allclose(with_mask, without)
