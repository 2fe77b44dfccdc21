"""Contract of every registered attention mechanism, alone and in `MultiHeadAttention`."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import MECHANISMS, MultiHeadAttention, register_mechanism
from keras_transformer.layers.attention.relative import UNRELATED
from tests.references.mechanisms import reference_of, settings_of

B, H, T, D = 3, 4, 7, 6
M = H * D

every_mechanism = pytest.mark.parametrize("name", sorted(MECHANISMS))
every_causal_mechanism = pytest.mark.parametrize(
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.supports_causal)
)
every_cached_mechanism = pytest.mark.parametrize(
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.supports_cache)
)
every_relation_mechanism = pytest.mark.parametrize(
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.supports_relations)
)
every_cross_mechanism = pytest.mark.parametrize(
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.supports_cross)
)


def random_weights(layer, random):
    """Assigns random weights to a layer, biases included, and returns it."""
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.4, variable.shape))
    return layer


def small(name):
    """Returns a mechanism whose windows and blocks are smaller than the texts of the tests."""
    return MECHANISMS[name](**settings_of(name))


def built(name, random, hidden_dim=M, value_dim=None, **settings):
    layer = MultiHeadAttention(H, mechanism=small(name), **settings)
    value_shape = None if value_dim is None else (None, None, value_dim)
    layer.build((None, None, hidden_dim), value_shape)
    return random_weights(layer, random)


def compiled(function, jit):
    """Returns a function compiled by XLA, or the function itself, which then runs eagerly."""
    return tf.function(function, jit_compile=True) if jit else function


def with_same_dropout(layer, function, *calls):
    """Returns the results of `function` for each of `calls`, with the same random numbers."""
    variables = layer.variables
    before = [variable.numpy() for variable in variables]
    results = []
    for call in calls:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
        results.append(tf.nest.map_structure(lambda x: x.numpy(), function(call)))
    return results


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "use_causal_mask", "offset"),
    [
        (name, use_causal_mask, offset)
        for name, kind in sorted(MECHANISMS.items())
        for use_causal_mask in ([False, True] if kind.supports_causal else [False])
        for offset in ([0, 3] if kind.supports_cache else [0])
    ],
)
def test_values_equal_the_numpy_reference(name, use_causal_mask, offset, random):
    mechanism = small(name)
    mechanism.build((None, H, None, D), (None, H, None, D), (None, H, None, D))
    random_weights(mechanism, random)
    query, key, value = (random.normal(0, 1, (B, H, T, D)) for _ in range(3))
    rows = T - offset if mechanism.supports_query_masks else 1
    visible = random.random((B, 1, rows, T)) < 0.7
    visible[0, :, rows // 2] = False  # no visible key

    positioned_query, positioned_key = mechanism.add_positions(
        tf.constant(query, tf.float32), tf.constant(key, tf.float32), offset=0
    )
    context, weights = mechanism(
        positioned_query[:, :, offset:],
        positioned_key,
        value.astype("float32"),
        attention_mask=visible,
        query_offset=offset,
        use_causal_mask=use_causal_mask,
        return_attention_scores=True,
    )

    visible = np.broadcast_to(visible, (B, H, T - offset, T)).copy()
    if use_causal_mask:
        visible &= np.arange(T)[None, :] <= np.arange(offset, T)[:, None]
    own = {variable.name: variable.numpy() for variable in mechanism.trainable_variables}
    expected = reference_of(name)(query[:, :, offset:], key, value, visible, offset, own)
    np.testing.assert_allclose(context, expected[0], atol=1e-5)
    np.testing.assert_allclose(weights, expected[1], atol=1e-5)


@every_cross_mechanism
def test_precomputed_keys_equal_keys_and_are_linear(name, random):
    mechanism = small(name)
    mechanism.build((None, H, None, D), (None, H, None, D), (None, H, None, D))
    random_weights(mechanism, random)
    query, key, value = (tf.constant(random.normal(0, 1, (B, H, T, D)), "float32") for _ in "qkv")
    added_key = tf.constant(random.normal(0, 1, (1, 1, 1, D)), "float32") + tf.zeros([1, H, 1, D])
    precomputed = mechanism.precompute_keys(key)
    for expected, found in zip(
        mechanism(query, key, value, return_attention_scores=True),
        mechanism(query, precomputed, value, return_attention_scores=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    sums = tf.nest.map_structure(
        lambda one, other: one + 3 * other, precomputed, mechanism.precompute_keys(added_key)
    )
    for expected, found in zip(
        tf.nest.flatten(mechanism.precompute_keys(key + 3 * added_key)),
        tf.nest.flatten(sums),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@every_mechanism
def test_multi_head_attention_equals_the_numpy_reference(name, random):
    """Projections, shared heads of keys and the mechanism are computed in NumPy."""
    layer = built(name, random, num_key_value_heads=2)
    x = random.normal(0, 1, (B, T, M))

    def project(projection, heads):
        kernel, bias = (weight.numpy() for weight in projection.weights)
        return (x @ kernel + bias).reshape(B, T, heads, D).transpose(0, 2, 1, 3)

    query = project(layer.query_projection, H)
    value = project(layer.value_projection, 2).repeat(2, axis=1)
    key = project(layer.key_projection, 2).repeat(2, axis=1) if layer.key_projection else value
    own = {variable.name: variable.numpy() for variable in layer.mechanism.trainable_variables}
    visible = np.ones((B, H, T, T), bool)
    context, weights = reference_of(name)(query, key, value, visible, 0, own)
    kernel, bias = (weight.numpy() for weight in layer.output_projection.weights)
    expected = context.transpose(0, 2, 1, 3).reshape(B, T, M) @ kernel + bias

    outputs, returned = layer(x.astype("float32"), return_attention_scores=True)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    np.testing.assert_allclose(returned, weights, atol=1e-5)


# --- masks -------------------------------------------------------------------------

ways = pytest.mark.parametrize(
    ("dtype", "training", "dropout", "jit"),
    [
        ("float32", True, 0.3, True),
        ("mixed_bfloat16", False, 0.0, True),
        ("mixed_float16", True, 0.3, False),
    ],
)


def perturbed(x, where, random):
    """Returns `x` with other, larger values where `where` is True."""
    return np.where(where[..., None], random.normal(0, 30, x.shape), x).astype("float32")


@every_causal_mechanism
@ways
def test_causal_mask_hides_later_positions(name, dtype, training, dropout, jit, random):
    layer = built(name, random, dropout=dropout, dtype=dtype)
    function = compiled(
        lambda x: layer(x, use_causal_mask=True, return_attention_scores=True, training=training),
        jit,
    )
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    is_later = np.broadcast_to(np.arange(T) >= 4, (B, T))
    (before, _), (after, weights) = with_same_dropout(
        layer, function, x, perturbed(x, is_later, random)
    )
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.array_equal(before[:, 4:], after[:, 4:])
    assert not np.any(np.triu(np.float32(weights), k=1))


IS_TOKEN = np.arange(T) < np.array([[7], [5], [2]])


@every_mechanism
@ways
def test_key_mask_hides_padding(name, dtype, training, dropout, jit, random):
    layer = built(name, random, dropout=dropout, dtype=dtype)
    function = compiled(lambda x: layer(x, mask=tf.constant(IS_TOKEN), training=training), jit)
    check_padding_is_hidden(layer, function, random)


@every_mechanism
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_attention_mask_hides_padding(name, dtype, random):
    layer = built(name, random, dropout=0.3, dtype=dtype)
    for training in (False, True):
        function = functools.partial(
            layer, attention_mask=tf.constant(IS_TOKEN[:, None]), training=training
        )
        check_padding_is_hidden(layer, function, random)


def check_padding_is_hidden(layer, function, random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    before, after = with_same_dropout(layer, function, x, perturbed(x, ~IS_TOKEN, random))
    np.testing.assert_array_equal(before[IS_TOKEN], after[IS_TOKEN])
    assert not np.array_equal(before[~IS_TOKEN], after[~IS_TOKEN])


@every_cross_mechanism
@ways
def test_value_mask_hides_padding_in_cross_attention(name, dtype, training, dropout, jit, random):
    layer = built(name, random, value_dim=10, dropout=dropout, dtype=dtype)
    is_token = np.arange(9) < np.array([[9], [5], [1]])
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    function = compiled(
        lambda value: layer(x, value, value_mask=tf.constant(is_token), training=training),
        jit,
    )
    value = random.normal(0, 1, (B, 9, 10)).astype("float32")
    before, after = with_same_dropout(layer, function, value, perturbed(value, ~is_token, random))
    np.testing.assert_array_equal(before, after)


@every_mechanism
@pytest.mark.parametrize(
    ("dtype", "jit"), [("float32", True), ("mixed_bfloat16", False), ("mixed_float16", False)]
)
def test_fully_masked_row_gives_zeros_and_finite_gradients(name, dtype, jit, random):
    layer = MultiHeadAttention(H, mechanism=small(name), dtype=dtype)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    differs = layer.mechanism.supports_query_masks
    attention_mask = np.ones((B, T if differs else 1, T), bool)
    attention_mask[1] = False
    if differs:
        attention_mask[2, 3] = False

    def function(x):
        with tf.GradientTape() as tape:
            outputs, weights = layer(x, attention_mask=attention_mask, return_attention_scores=True)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return outputs, weights, tape.gradient(loss, [v.value for v in layer.trainable_variables])

    layer(x)
    outputs, weights, gradients = compiled(function, jit)(tf.constant(x))
    assert not np.any(outputs.numpy()[1])
    assert np.any(outputs.numpy()[2, 3]) != differs
    assert not np.any(weights.numpy()[1])
    assert np.any(outputs.numpy()[0])
    for array in (outputs, weights, *gradients):
        assert np.all(np.isfinite(np.float32(tf.convert_to_tensor(array))))


# --- cached stepping ------------------------------------------------------------------------------


@every_cached_mechanism
@pytest.mark.parametrize(("key_heads", "jit"), [(4, False), (1, False), (2, True)])
def test_cached_steps_equal_full_attention(name, key_heads, jit, random):
    """Steps have 3, 1, 1, … positions; rows have padding before, between and after tokens."""
    layer = built(name, random, num_key_value_heads=key_heads)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    is_token = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 0, 0, 0]], bool)
    full, full_weights = layer(
        x, mask=tf.constant(is_token), use_causal_mask=True, return_attention_scores=True
    )

    def step(x, is_token, cache, offset):
        return layer(
            x,
            query_mask=is_token,
            cache=cache,
            position=offset,
            use_causal_mask=True,
            return_attention_scores=True,
        )

    step = compiled(step, jit)
    max_length = T + 2
    cache = layer.initial_cache(B, max_length)
    shapes = [value.shape for value in cache]
    start = 0
    for end in (3, *range(4, T + 1)):
        outputs, weights, cache = step(
            x[:, start:end], is_token[:, start:end], cache, tf.constant(start)
        )
        np.testing.assert_allclose(outputs, full[:, start:end], atol=1e-5)
        np.testing.assert_allclose(weights[..., :T], full_weights[:, :, start:end], atol=1e-5)
        assert [value.shape for value in cache] == shapes
        start = end


@every_cross_mechanism
def test_cross_attention_cache_equals_the_sequence(name, random):
    layer = built(name, random, value_dim=10, num_key_value_heads=2)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    value = random.normal(0, 1, (B, 9, 10)).astype("float32")
    mask = tf.constant(np.arange(9) < np.array([[9], [5], [1]]))
    cache = layer.cross_attention_cache(value, mask)
    np.testing.assert_allclose(
        layer(x, cross_attention_cache=cache), layer(x, value, value_mask=mask), atol=1e-6
    )
    np.testing.assert_allclose(
        layer(x, cross_attention_cache=layer.cross_attention_cache(value)),
        layer(x, value),
        atol=1e-6,
    )


# --- relations ------------------------------------------------------------------------------------


def some_relations(random):
    """Returns relations `[B, T, T]` with an unrelated token in each row, as tensor and as lists."""
    relations = random.integers(-4, 5, (B, T, T))
    relations[:, 3] = relations[:, :, 3] = UNRELATED
    known = [[[None if r == UNRELATED else r for r in row] for row in of] for of in relations]
    return tf.constant(relations, tf.int32), known


@every_relation_mechanism
def test_relations_equal_the_numpy_reference(name, random):
    mechanism = small(name)
    mechanism.build((None, H, None, D), (None, H, None, D), (None, H, None, D))
    random_weights(mechanism, random)
    query, key, value = (random.normal(0, 1, (B, H, T, D)) for _ in range(3))
    visible = random.random((B, 1, T, T)) < 0.7
    visible[0, :, T // 2] = False  # no visible key
    relations, known = some_relations(random)
    arrays = [tf.constant(array, tf.float32) for array in (query, key, value)]
    context, weights = mechanism(
        *arrays, attention_mask=visible, relations=relations, return_attention_scores=True
    )
    own = {variable.name: variable.numpy() for variable in mechanism.trainable_variables}
    visible = np.broadcast_to(visible, (B, H, T, T))
    expected = reference_of(name)(query, key, value, visible, 0, own, known)
    np.testing.assert_allclose(context, expected[0], atol=1e-5)
    np.testing.assert_allclose(weights, expected[1], atol=1e-5)


@every_relation_mechanism
@ways
def test_relations_of_padding_have_no_effect(name, dtype, training, dropout, jit, random):
    layer = built(name, random, dropout=dropout, dtype=dtype, num_key_value_heads=2)
    x = tf.constant(random.normal(0, 1, (B, T, M)), tf.float32)
    function = tf.function(
        lambda relations: layer(
            x, relations=relations, query_mask=tf.constant(IS_TOKEN), training=training
        ),
        jit_compile=jit,
    )
    relations, _ = some_relations(random)
    is_pair = IS_TOKEN[:, :, None] & IS_TOKEN[:, None]
    others = tf.where(is_pair, relations, 1)
    before, after = with_same_dropout(layer, function, relations, others)
    np.testing.assert_array_equal(before[IS_TOKEN], after[IS_TOKEN])
    (changed,) = with_same_dropout(layer, function, tf.where(is_pair, 2 - relations, relations))
    assert not np.array_equal(before[IS_TOKEN], changed[IS_TOKEN])


@every_relation_mechanism
@pytest.mark.parametrize("jit", [False, True])
def test_every_relation_has_a_gradient(name, jit, random):
    layer = built(name, random)
    x = tf.constant(random.normal(0, 1, (B, T, M)), tf.float32)
    relations, _ = some_relations(random)

    @tf.function(jit_compile=jit)
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, relations=relations) ** 2)
        return tape.gradient(loss, [v.value for v in layer.mechanism.trainable_variables])

    for gradient in gradients():
        of_rows = np.abs(tf.convert_to_tensor(gradient)).max(axis=-1)
        assert np.all(np.isfinite(of_rows))
        assert np.all(of_rows > 1e-6)


# --- unsupported uses ------------------------------------------------------------------------

USES = {
    "supports_causal": ({"use_causal_mask": True}, "cannot hide later positions"),
    "supports_cross": ({"value": "sequence"}, "cannot attend from one sequence to another"),
    "supports_cache": ({"cache": "cache"}, "cannot decode step by step"),
    "supports_query_masks": ({"attention_mask": "mask"}, "cannot take a mask that differs"),
    "supports_relations": ({"relations": "relations"}, "cannot read relations between tokens"),
}


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        (name, attribute)
        for name, kind in sorted(MECHANISMS.items())
        for attribute in USES
        if not getattr(kind, attribute)
    ],
)
def test_unsupported_use_raises_and_names_other_mechanisms(name, attribute, random):
    arguments, message = USES[attribute]
    layer = built(name, random)
    x = keras.Input((T, M))
    mask = keras.Input((T, T), dtype="bool")
    relations = keras.Input((T, T), dtype="int32")
    given = {
        "sequence": keras.Input((T, M)),
        "cache": layer.initial_cache(B, T),
        "mask": mask,
        "relations": relations,
    }
    arguments = {key: given.get(value, value) for key, value in arguments.items()}
    with pytest.raises(ValueError, match=f"'{name}' {message}.* Use one of "):
        layer(x, **arguments)


def test_register_mechanism_rejects_a_taken_name():
    with pytest.raises(ValueError, match=r"'rotary'.*RotaryAttention"):
        register_mechanism("rotary")(MECHANISMS["rotary"])


# --- precision and saving -------------------------------------------------------------------------


@every_mechanism
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("mixed_bfloat16", 0.06), ("mixed_float16", 0.008), ("float64", 1e-5)]
)
def test_other_precisions_are_close(name, dtype, tolerance, random):
    layer = built(name, random)
    other = built(name, random, dtype=dtype)
    for variable, value in zip(other.weights, layer.weights, strict=True):
        variable.assign(value)
    x = random.normal(0, 0.5, (B, T, M)).astype("float32")
    expected = layer(x).numpy()
    outputs = other(x)
    assert outputs.dtype == other.compute_dtype
    assert all(weight.dtype == other.variable_dtype for weight in other.weights)
    np.testing.assert_allclose(np.float64(outputs), expected, atol=tolerance * np.ptp(expected))


@every_mechanism
def test_config_round_trip(name, random):
    layer = built(name, random, dropout=0.2, num_key_value_heads=2)
    again = MultiHeadAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert type(again.mechanism) is MECHANISMS[name]
    assert again.mechanism.dropout == 0.2


@every_mechanism
def test_instance_is_cloned_and_not_shared(name, random):
    pattern = MECHANISMS[name](dropout=0.1)
    first, second = (MultiHeadAttention(H, mechanism=pattern) for _ in range(2))
    assert first.mechanism is not second.mechanism
    assert first.mechanism is not pattern
    assert first.mechanism.dropout == 0.1
    assert not pattern.built


@every_mechanism
def test_symbolic_call_has_shapes_and_dtypes(name):
    x = keras.Input((None, M))
    layer = MultiHeadAttention(H, mechanism=name, dtype="mixed_bfloat16")
    outputs, weights = layer(x, return_attention_scores=True)
    assert (outputs.shape, weights.shape) == ((None, None, M), (None, H, None, None))
    model = keras.Model(x, [outputs, weights])
    concrete = model(np.ones((2, T, M), "float32"))
    assert [tuple(tensor.shape) for tensor in concrete] == [(2, T, M), (2, H, T, T)]
    assert [tensor.dtype for tensor in concrete] == [outputs.dtype, weights.dtype]
