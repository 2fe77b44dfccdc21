"""Every registered attention mechanism, alone and in `MultiHeadAttention`."""

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
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.reads_relations)
)
every_cross_mechanism = pytest.mark.parametrize(
    "name", sorted(name for name, kind in MECHANISMS.items() if kind.supports_cross)
)


def random_weights(layer, random):
    """Gives a layer weights that are neither zero nor all alike, biases included."""
    for variable in layer.trainable_variables:
        variable.assign(random.normal(0, 0.4, variable.shape))
    return layer


def small(name):
    """A mechanism whose windows, blocks and the like are smaller than the tests' texts."""
    return MECHANISMS[name](**settings_of(name))


def built(name, random, hidden_dim=M, memory_width=None, **settings):
    layer = MultiHeadAttention(H, mechanism=small(name), **settings)
    memory_shape = None if memory_width is None else (None, None, memory_width)
    layer.build((None, None, hidden_dim), memory_shape)
    return random_weights(layer, random)


def with_same_dropout(layer, function, *calls):
    """Results of `function` for each of `calls`, all drawing the same random numbers."""
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
    visible[0, :, rows // 2] = False  # nothing to see

    placed_query, placed_key = mechanism.place(
        tf.constant(query, tf.float32), tf.constant(key, tf.float32), offset=0
    )
    context, weights = mechanism(
        placed_query[:, :, offset:],
        placed_key,
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
def test_prepared_keys_are_keys(name, random):
    """They give the same, and what is added to keys can be added to them: `prepare` is linear."""
    mechanism = small(name)
    mechanism.build((None, H, None, D), (None, H, None, D), (None, H, None, D))
    random_weights(mechanism, random)
    query, key, value = (tf.constant(random.normal(0, 1, (B, H, T, D)), "float32") for _ in "qkv")
    mark = tf.constant(random.normal(0, 1, (1, 1, 1, D)), "float32") + tf.zeros([1, H, 1, D])
    prepared = mechanism.prepare(key)
    for expected, found in zip(
        mechanism(query, key, value, return_attention_scores=True),
        mechanism(query, prepared, value, return_attention_scores=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    added = tf.nest.map_structure(lambda k, m: k + 3 * m, prepared, mechanism.prepare(mark))
    for expected, found in zip(
        tf.nest.flatten(mechanism.prepare(key + 3 * mark)), tf.nest.flatten(added), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@every_mechanism
def test_sits_in_multi_head_attention(name, random):
    """The layer is the projections around the mechanism, in NumPy too; heads of keys shared."""
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


# --- what may not be seen -------------------------------------------------------------------------

ways = pytest.mark.parametrize(
    ("dtype", "training", "dropout", "jit"),
    [
        ("float32", False, 0.0, False),
        ("float32", True, 0.3, False),
        ("float32", False, 0.0, True),
        ("float32", True, 0.3, True),
        ("mixed_bfloat16", True, 0.3, False),
        ("mixed_float16", True, 0.3, False),
        ("mixed_bfloat16", False, 0.0, True),
    ],
)


def perturbed(x, where, random):
    """`x` with other, larger values at the positions `where` is True."""
    return np.where(where[..., None], random.normal(0, 30, x.shape), x).astype("float32")


@every_causal_mechanism
@ways
def test_the_future_is_not_seen(name, dtype, training, dropout, jit, random):
    layer = built(name, random, dropout=dropout, dtype=dtype)
    function = tf.function(
        lambda x: layer(x, use_causal_mask=True, return_attention_scores=True, training=training),
        jit_compile=jit,
    )
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    is_future = np.broadcast_to(np.arange(T) >= 4, (B, T))
    (before, _), (after, weights) = with_same_dropout(
        layer, function, x, perturbed(x, is_future, random)
    )
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.array_equal(before[:, 4:], after[:, 4:])
    assert not np.any(np.triu(np.float32(weights), k=1))


IS_TOKEN = np.arange(T) < np.array([[7], [5], [2]])


@every_mechanism
@ways
def test_padding_is_not_seen(name, dtype, training, dropout, jit, random):
    layer = built(name, random, dropout=dropout, dtype=dtype)
    function = tf.function(
        lambda x: layer(x, mask=tf.constant(IS_TOKEN), training=training), jit_compile=jit
    )
    check_padding_is_not_seen(layer, function, random)


@every_mechanism
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_padding_that_the_caller_masks_is_not_seen(name, dtype, random):
    layer = built(name, random, dropout=0.3, dtype=dtype)
    for training in (False, True):
        function = functools.partial(
            layer, attention_mask=tf.constant(IS_TOKEN[:, None]), training=training
        )
        check_padding_is_not_seen(layer, function, random)


def check_padding_is_not_seen(layer, function, random):
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    before, after = with_same_dropout(layer, function, x, perturbed(x, ~IS_TOKEN, random))
    np.testing.assert_array_equal(before[IS_TOKEN], after[IS_TOKEN])
    assert not np.array_equal(before[~IS_TOKEN], after[~IS_TOKEN])


@every_cross_mechanism
@ways
def test_masked_memory_is_not_seen(name, dtype, training, dropout, jit, random):
    layer = built(name, random, memory_width=10, dropout=dropout, dtype=dtype)
    is_token = np.arange(9) < np.array([[9], [5], [1]])
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    function = tf.function(
        lambda memory: layer(x, memory, memory_mask=tf.constant(is_token), training=training),
        jit_compile=jit,
    )
    memory = random.normal(0, 1, (B, 9, 10)).astype("float32")
    before, after = with_same_dropout(layer, function, memory, perturbed(memory, ~is_token, random))
    np.testing.assert_array_equal(before, after)


@every_mechanism
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("jit", [False, True])
def test_a_fully_masked_row_gives_zeros(name, dtype, jit, random):
    layer = MultiHeadAttention(H, mechanism=small(name), dtype=dtype)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    differs = layer.mechanism.supports_query_masks
    attention_mask = np.ones((B, T if differs else 1, T), bool)
    attention_mask[1] = False
    if differs:
        attention_mask[2, 3] = False

    @tf.function(jit_compile=jit)
    def function(x):
        with tf.GradientTape() as tape:
            outputs, weights = layer(x, attention_mask=attention_mask, return_attention_scores=True)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return outputs, weights, tape.gradient(loss, [v.value for v in layer.trainable_variables])

    layer(x)
    outputs, weights, gradients = function(tf.constant(x))
    assert not np.any(outputs.numpy()[1])
    assert np.any(outputs.numpy()[2, 3]) != differs
    assert not np.any(weights.numpy()[1])
    assert np.any(outputs.numpy()[0])
    for array in (outputs, weights, *gradients):
        assert np.all(np.isfinite(np.float32(tf.convert_to_tensor(array))))


# --- cached stepping ------------------------------------------------------------------------------


@every_cached_mechanism
@pytest.mark.parametrize(("key_heads", "jit"), [(4, False), (2, False), (1, False), (2, True)])
def test_cached_steps_equal_the_full_pass(name, key_heads, jit, random):
    """In steps of 3, 1, 1, … positions, for rows with padding in front, within and behind."""
    layer = built(name, random, num_key_value_heads=key_heads)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    is_token = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 0, 0, 0]], bool)
    full, full_weights = layer(
        x, mask=tf.constant(is_token), use_causal_mask=True, return_attention_scores=True
    )

    @tf.function(jit_compile=jit)
    def step(x, is_token, cache, offset):
        return layer(
            x,
            query_mask=is_token,
            cache=cache,
            offset=offset,
            use_causal_mask=True,
            return_attention_scores=True,
        )

    max_length = T + 2
    cache = layer.initial_cache(B, max_length)
    shapes = {key: value.shape for key, value in cache.items()}
    start = 0
    for end in (3, *range(4, T + 1)):
        outputs, weights, cache = step(
            x[:, start:end], is_token[:, start:end], cache, tf.constant(start)
        )
        np.testing.assert_allclose(outputs, full[:, start:end], atol=1e-5)
        np.testing.assert_allclose(weights[..., :T], full_weights[:, :, start:end], atol=1e-5)
        assert {key: value.shape for key, value in cache.items()} == shapes
        start = end


@every_cross_mechanism
def test_projected_memory_equals_memory(name, random):
    layer = built(name, random, memory_width=10, num_key_value_heads=2)
    x = random.normal(0, 1, (B, T, M)).astype("float32")
    memory = random.normal(0, 1, (B, 9, 10)).astype("float32")
    mask = tf.constant(np.arange(9) < np.array([[9], [5], [1]]))
    projected = layer.project_memory(memory, mask)
    np.testing.assert_allclose(
        layer(x, projected_memory=projected), layer(x, memory, memory_mask=mask), atol=1e-6
    )
    np.testing.assert_allclose(
        layer(x, projected_memory=layer.project_memory(memory)), layer(x, memory), atol=1e-6
    )


# --- relations ------------------------------------------------------------------------------------


def some_relations(random):
    """Relations `[B, T, T]`, far and near, and a token in each row that has none; as a list too."""
    relations = random.integers(-4, 5, (B, T, T))
    relations[:, 3] = relations[:, :, 3] = UNRELATED
    known = [[[None if r == UNRELATED else r for r in row] for row in of] for of in relations]
    return tf.constant(relations, tf.int32), known


@every_relation_mechanism
def test_values_of_relations_equal_the_numpy_reference(name, random):
    mechanism = small(name)
    mechanism.build((None, H, None, D), (None, H, None, D), (None, H, None, D))
    random_weights(mechanism, random)
    query, key, value = (random.normal(0, 1, (B, H, T, D)) for _ in range(3))
    visible = random.random((B, 1, T, T)) < 0.7
    visible[0, :, T // 2] = False  # nothing to see
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
def test_relations_of_padding_are_not_seen(name, dtype, training, dropout, jit, random):
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
def test_every_relation_is_learned(name, jit, random):
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


# --- what is not supported ------------------------------------------------------------------------

USES = {
    "supports_causal": ({"use_causal_mask": True}, "cannot hide the future"),
    "supports_cross": ({"memory": "x"}, "cannot attend from one sequence to another"),
    "supports_cache": ({"cache": "cache"}, "cannot decode step by step"),
    "supports_query_masks": ({"attention_mask": "mask"}, "cannot take a mask that differs"),
    "reads_relations": ({"relations": "relations"}, "cannot read relations between tokens"),
}


@pytest.mark.parametrize(
    ("name", "ability"),
    [
        (name, ability)
        for name, kind in sorted(MECHANISMS.items())
        for ability in USES
        if not getattr(kind, ability)
    ],
)
def test_what_is_not_supported_says_so(name, ability, random):
    arguments, message = USES[ability]
    layer = built(name, random)
    x = keras.Input((T, M))
    mask = keras.Input((T, T), dtype="bool")
    relations = keras.Input((T, T), dtype="int32")
    given = {"x": x, "cache": layer.initial_cache(B, T), "mask": mask, "relations": relations}
    arguments = {key: given.get(value, value) for key, value in arguments.items()}
    with pytest.raises(ValueError, match=f"'{name}' {message}.* Use one of "):
        layer(x, **arguments)


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="The name 'rotary' is taken by Rotary"):
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
def test_an_instance_is_a_pattern_not_shared(name, random):
    pattern = MECHANISMS[name](dropout=0.1)
    first, second = (MultiHeadAttention(H, mechanism=pattern) for _ in range(2))
    assert first.mechanism is not second.mechanism
    assert first.mechanism is not pattern
    assert first.mechanism.dropout == 0.1
    assert not pattern.built


@every_mechanism
def test_symbolic_call_knows_shapes_and_dtypes(name):
    x = keras.Input((None, M))
    layer = MultiHeadAttention(H, mechanism=name, dtype="mixed_bfloat16")
    outputs, weights = layer(x, return_attention_scores=True)
    assert (outputs.shape, weights.shape) == ((None, None, M), (None, H, None, None))
    model = keras.Model(x, [outputs, weights])
    real = model(np.ones((2, T, M), "float32"))
    assert [tuple(tensor.shape) for tensor in real] == [(2, T, M), (2, H, T, T)]
    assert [tensor.dtype for tensor in real] == [outputs.dtype, weights.dtype]
