"""`MultiHeadAttention` beside `keras.layers.MultiHeadAttention`, with the same weights."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MultiHeadAttention

B, T, S, M, N, H = 2, 5, 7, 12, 10, 3


def copy_weights(ours, theirs):
    """Keras separates the heads, `[M, H, D]`; ours are side by side, `[M, H·D]`."""
    pairs = [
        (ours.query_projection, theirs.query_dense),
        (ours.key_projection, theirs.key_dense),
        (ours.value_projection, theirs.value_dense),
        (ours.output_projection, theirs.output_dense),
    ]
    for our_layer, their_layer in pairs:
        for our_weight, their_weight in zip(our_layer.weights, their_layer.weights, strict=True):
            our_weight.assign(tf.reshape(their_weight, our_weight.shape))


def make_pair(*args, value=None, key=None, settings=None, **shared):
    """Returns both layers, built for the inputs, with equal weights."""
    shared = {"bias_initializer": "random_normal", **shared}
    theirs = keras.layers.MultiHeadAttention(*args, **shared)
    ours = MultiHeadAttention(*args, **shared, **(settings or {}))
    shapes = [None if each is None else each.shape for each in (value, key)]
    theirs.build((B, T, M), shapes[0] or (B, T, M), shapes[1])
    ours.build((B, T, M), *shapes)
    copy_weights(ours, theirs)
    return ours, theirs


def assert_equal(ours, theirs):
    ours, theirs = (each if isinstance(each, tuple) else (each,) for each in (ours, theirs))
    for our_output, their_output in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our_output, their_output, atol=1e-5)


def sequence(random, length=S, size=N):
    return random.normal(0, 1, (B, length, size)).astype("float32")


def mask_of(random, *shape):
    """A random mask in which every query sees the first key."""
    mask = random.random(shape) < 0.6
    mask[..., 0] = True
    return mask


@pytest.fixture
def query(random):
    return sequence(random, T, M)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key_dim": 6},
        {"value_dim": 5},
        {"key_dim": 6, "value_dim": 2},
        {"use_bias": False},
        {"output_shape": 9},
        {"output_shape": (2, 5)},
        {"dropout": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_cross", [False, True])
def test_constructor_options_give_the_results_of_keras(options, is_cross, query, random):
    value = sequence(random) if is_cross else None
    ours, theirs = make_pair(H, **{"key_dim": 4, **options}, value=value)
    value = query if value is None else value
    for arguments in ({}, {"return_attention_scores": True}, {"use_causal_mask": True}):
        assert_equal(ours(query, value, **arguments), theirs(query, value, **arguments))
    assert ours.compute_output_shape(query.shape) == theirs.compute_output_shape(
        query.shape, value.shape
    )


def test_positional_constructor_arguments_mean_the_same(query):
    arguments = (H, 4, 5, 0.25, False, 9)
    ours, theirs = make_pair(*arguments)
    assert_equal(ours(query, query), theirs(query, query))
    assert (ours.dropout, ours.use_bias) == (theirs.dropout, theirs.use_bias) == (0.25, False)


def test_positional_call_arguments_mean_the_same(query, random):
    value, key = sequence(random), sequence(random)
    ours, theirs = make_pair(H, 4, value=value, key=key)
    masks = [mask_of(random, B, T), mask_of(random, B, S), mask_of(random, B, S)]
    attention_mask = mask_of(random, B, T, S)
    # Keras takes only tensors by position: query_mask, value_mask, key_mask and attention_mask.
    arguments = (value, key, *masks, attention_mask)
    for settings in ({}, {"return_attention_scores": True, "use_causal_mask": True}):
        assert_equal(ours(query, *arguments, **settings), theirs(query, *arguments, **settings))
    names = list(inspect.signature(theirs.call).parameters)
    assert list(inspect.signature(ours.call).parameters)[: len(names)] == names


@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize(
    "shape", [None, (B, T, S), (1, T, S), (B, 1, S), (B, H, T, S), (B, 1, 1, S)]
)
def test_attention_masks_hide_the_same_keys(shape, use_causal_mask, query, random):
    value = sequence(random)
    ours, theirs = make_pair(H, 4, value=value)
    arguments = {"use_causal_mask": use_causal_mask, "return_attention_scores": True}
    if shape is not None:
        arguments["attention_mask"] = mask_of(random, *shape)
    assert_equal(ours(query, value, **arguments), theirs(query, value, **arguments))


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_attention_mask_of_integers_is_taken_as_boolean(dtype, query, random):
    ours, theirs = make_pair(H, 4)
    mask = mask_of(random, B, T, T).astype(dtype)
    assert_equal(ours(query, query, attention_mask=mask), theirs(query, query, attention_mask=mask))


@pytest.mark.parametrize(
    "names", [["value_mask"], ["key_mask"], ["value_mask", "key_mask"], ["query_mask"]]
)
@pytest.mark.parametrize("has_key", [False, True])
def test_explicit_masks_hide_the_same_keys(names, has_key, query, random):
    value, key = sequence(random), sequence(random) if has_key else None
    ours, theirs = make_pair(H, 4, value=value, key=key)
    arguments = {name: mask_of(random, B, T if name == "query_mask" else S) for name in names}
    assert_equal(ours(query, value, key, **arguments), theirs(query, value, key, **arguments))


@pytest.mark.parametrize("names", [["value_mask"], ["query_mask"], ["query_mask", "value_mask"]])
def test_explicit_masks_of_self_attention_hide_the_same_keys(names, query, random):
    ours, theirs = make_pair(H, 4)
    arguments = {name: mask_of(random, B, T) for name in names}
    assert_equal(ours(query, query, **arguments), theirs(query, query, **arguments))


@pytest.mark.parametrize("is_cross", [False, True])
@pytest.mark.parametrize("use_causal_mask", [False, True])
def test_implicit_masks_hide_the_same_keys(is_cross, use_causal_mask, random):
    embedding = keras.layers.Embedding(9, M, mask_zero=True)
    query_ids, value_ids = np.array([[1, 2, 3, 4, 0]] * B), np.array([[5, 6, 0], [7, 0, 0]])
    query = embedding(query_ids)
    value = embedding(value_ids) if is_cross else query
    ours, theirs = make_pair(H, 4, value=value)
    assert query._keras_mask is not None
    outputs = ours(query, value, use_causal_mask=use_causal_mask)
    # Keras removes the masks of its inputs, so it comes second.
    expected = theirs(query, value, use_causal_mask=use_causal_mask)
    np.testing.assert_array_equal(outputs._keras_mask, query_ids != 0)
    is_token = query_ids != 0
    assert_equal(outputs.numpy()[is_token], expected.numpy()[is_token])


@pytest.mark.parametrize("has_key", [False, True])
def test_functional_models_give_the_same_results_after_saving(has_key, query, random, tmp_path):
    value, key = sequence(random), sequence(random) if has_key else None
    ours, theirs = make_pair(H, 4, value=value, key=key)
    arrays = [each for each in (query, value, key) if each is not None]
    inputs = [keras.Input(each.shape[1:]) for each in arrays]
    model = keras.Model(inputs, ours(*inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_equal(again(arrays), theirs(*arrays))


def test_self_attention_without_value_equals_keras_with_it_twice(query):
    ours, theirs = make_pair(H, 4)
    for use_causal_mask in (False, True):
        expected = theirs(query, query, use_causal_mask=use_causal_mask)
        assert_equal(ours(query, use_causal_mask=use_causal_mask), expected)


@pytest.mark.parametrize("mechanism", ["rotary", "shaw", "local", "alibi"])
def test_keras_way_of_self_attention_works_with_mechanisms_for_one_sequence(mechanism, query):
    """`layer(x, x)` is self-attention, for tensors, arrays and symbolic tensors."""
    layer = MultiHeadAttention(H, key_dim=4, mechanism=mechanism)
    expected = layer(query, use_causal_mask=True)
    assert_equal(layer(query, query, use_causal_mask=True), expected)
    assert_equal(layer(query, value=query, key=query, use_causal_mask=True), expected)
    x = keras.Input((T, M))
    model = keras.Model(x, layer(x, x, use_causal_mask=True))
    assert_equal(model(query), expected)
    with pytest.raises(ValueError, match=f"'{mechanism}'.* leave `value` out"):
        layer(query, query + 1)


@pytest.mark.parametrize("has_mask", [False, True])
def test_gradients_equal_those_of_keras(has_mask, query, random):
    ours, theirs = make_pair(H, 4)
    mask = mask_of(random, B, T, T) if has_mask else None
    gradients = []
    for layer in (ours, theirs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(query, query, attention_mask=mask) ** 2)
        gradients.append(tape.gradient(loss, [v.value for v in layer.trainable_variables]))
    for our_gradient, their_gradient in zip(*gradients, strict=True):
        their_gradient = tf.reshape(their_gradient, our_gradient.shape)
        np.testing.assert_allclose(our_gradient, their_gradient, atol=1e-4)


def test_dropout_in_training_drops_the_same_share_of_attention_weights():
    """With values of one the outputs show the sum of the weights that were kept."""
    arguments = {"use_bias": False, "kernel_initializer": "ones"}
    x = np.ones((1, 400, 1), "float32")
    shares = []
    for kind in (MultiHeadAttention, keras.layers.MultiHeadAttention):
        layer = kind(1, 1, dropout=0.25, **arguments)
        outputs = layer(x, x, training=True).numpy()
        assert outputs.std() > 0
        shares.append(outputs.mean())
        np.testing.assert_allclose(layer(x, x, training=False), 1, atol=1e-5)
    np.testing.assert_allclose(shares, 1, atol=0.02)


def test_initializers_regularizers_and_constraints_act_as_in_keras(query):
    options = {
        "kernel_initializer": keras.initializers.Constant(0.5),
        "bias_initializer": "ones",
        "kernel_regularizer": keras.regularizers.L2(0.1),
        "bias_regularizer": "l1",
        "kernel_constraint": "non_neg",
        "bias_constraint": keras.constraints.NonNeg(),
    }
    layers = [
        kind(H, 4, **options) for kind in (MultiHeadAttention, keras.layers.MultiHeadAttention)
    ]
    ours, theirs = layers
    assert_equal(ours(query, query), theirs(query, query))
    np.testing.assert_allclose(sum(ours.losses), sum(theirs.losses), rtol=1e-5)
    negative = tf.fill(ours.query_projection.kernel.shape, -1.0)
    np.testing.assert_array_equal(ours.query_projection.kernel.constraint(negative), 0)
    np.testing.assert_array_equal(ours.query_projection.bias.constraint(negative[0]), 0)
    again = MultiHeadAttention.from_config(ours.get_config())
    assert again.get_config() == ours.get_config()
    assert again.kernel_regularizer.l2 == pytest.approx(0.1)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_other_precisions_give_the_results_of_keras(dtype, query, random):
    value = sequence(random)
    ours, theirs = make_pair(H, 4, value=value, dtype=dtype)
    outputs, expected = ours(query, value), theirs(query, value)
    assert outputs.dtype == expected.dtype
    tolerance = 1e-5 if dtype == "float64" else 0.05
    np.testing.assert_allclose(
        tf.cast(outputs, "float64"), tf.cast(expected, "float64"), atol=tolerance
    )


def test_fewer_key_heads_equal_keras_grouped_query_attention(query):
    theirs = keras.layers.GroupQueryAttention(
        head_dim=2, num_query_heads=6, num_key_value_heads=3, bias_initializer="random_normal"
    )
    expected = theirs(query, query, use_causal_mask=True)
    ours = MultiHeadAttention(6, num_key_value_heads=3)
    ours.build((B, T, M))
    theirs.query_dense, theirs.key_dense = theirs._query_dense, theirs._key_dense
    theirs.value_dense, theirs.output_dense = theirs._value_dense, theirs._output_dense
    copy_weights(ours, theirs)
    np.testing.assert_allclose(ours(query, use_causal_mask=True), expected, atol=1e-5)
    assert ours.key_projection.units == 6


def test_options_that_only_keras_has_are_refused_by_name():
    with pytest.raises(ValueError, match="attention_axes"):
        MultiHeadAttention(H, 4, attention_axes=(1,))
