"""KV caches: appending, reordering, space, and their use as nests of tensors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import FixedKVCache, GrowingKVCache, MultiHeadAttention

B, K, L, D, E = 2, 3, 5, 4, 6


def make_empty(kind, batch_size=B):
    if kind is FixedKVCache:
        return FixedKVCache.empty(batch_size, K, L, D, E)
    return GrowingKVCache.empty(batch_size, K, D, E)


def entries(random, count):
    key = tf.constant(random.normal(size=(B, K, count, D)), tf.float32)
    return key, tf.constant(random.normal(size=(B, K, count, E)), tf.float32)


every_kind = pytest.mark.parametrize("kind", [FixedKVCache, GrowingKVCache])


@every_kind
def test_appended_entries_follow_each_other(kind, random):
    cache = make_empty(kind)
    first, second = entries(random, 2), entries(random, 1)
    mask = tf.constant([[False, True], [True, True]])
    cache = cache.append(*first, mask).append(*second)
    assert int(cache.length) == 3
    np.testing.assert_array_equal(cache.key[:, :, :3], tf.concat([first[0], second[0]], axis=2))
    np.testing.assert_array_equal(cache.value[:, :, :3], tf.concat([first[1], second[1]], axis=2))
    np.testing.assert_array_equal(cache.mask[:, :3], [[False, True, True], [True, True, True]])
    assert not np.any(cache.mask[:, 3:])


@every_kind
def test_reorder_gathers_rows(kind, random):
    cache = make_empty(kind).append(*entries(random, 2))
    reordered = cache.reorder(tf.constant([1, 1, 0]))
    for found, expected in zip(reordered[:3], cache[:3], strict=True):
        np.testing.assert_array_equal(found, tf.gather(expected, [1, 1, 0]))
    assert type(reordered) is kind
    assert int(reordered.length) == 2


@every_kind
@pytest.mark.parametrize("map_structure", [tf.nest.map_structure, keras.tree.map_structure])
def test_nests_of_tensors_keep_the_type(kind, map_structure, random):
    cache = make_empty(kind).append(*entries(random, 1))
    again = map_structure(tf.identity, {"layers": [cache]})["layers"][0]
    assert type(again) is kind
    np.testing.assert_array_equal(again.key, cache.key)


@pytest.mark.parametrize(
    ("kind", "jit"), [(FixedKVCache, False), (FixedKVCache, True), (GrowingKVCache, False)]
)
def test_a_while_loop_appends(kind, jit, random):
    key, value = entries(random, L)

    @tf.function(jit_compile=jit)
    def fill(key, value):
        def body(i, cache):
            return i + 1, cache.append(key[:, :, i : i + 1], value[:, :, i : i + 1])

        _, cache = tf.while_loop(lambda i, _: i < L, body, (0, make_empty(kind)))
        return cache

    cache = fill(key, value)
    np.testing.assert_array_equal(cache.key, key)
    np.testing.assert_array_equal(cache.value, value)
    assert np.all(cache.mask)


def test_fixed_cache_without_space_is_an_error_when_the_length_is_known(random):
    cache = make_empty(FixedKVCache).append(*entries(random, 4))
    ids = tf.zeros([B, 1], tf.int32)
    assert cache.require_space(1, ids) is ids
    with pytest.raises(ValueError, match=f"max_length={L}"):
        cache.require_space(2, ids)
    assert make_empty(GrowingKVCache).require_space(1000, ids) is ids


def test_fixed_cache_without_space_fails_in_a_graph(random):
    cache = make_empty(FixedKVCache).append(*entries(random, 4))
    check = tf.function(lambda cache, count: cache.require_space(count, count))
    assert int(check(cache, tf.constant(1))) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"max_length={L}"):
        check(cache, tf.constant(2))


@pytest.mark.parametrize("max_length", [None, 4])
def test_position_and_length_of_the_cache_are_independent(max_length, random):
    """A text that begins at position 100 in an empty cache gives the same rotary attention."""
    layer = MultiHeadAttention(2, key_dim=4, mechanism="rotary")
    x = tf.constant(random.normal(size=(B, 3, 8)), tf.float32)
    layer.build(x.shape)
    results = []
    for start in (0, 100):
        cache, outputs = layer.initial_cache(B, max_length), []
        for i in range(3):
            output, cache = layer(
                x[:, i : i + 1], cache=cache, position=start + i, use_causal_mask=True
            )
            outputs.append(output)
        assert int(cache.length) == 3
        results.append(tf.concat(outputs, axis=1))
    np.testing.assert_allclose(results[1], results[0], atol=1e-4)
    np.testing.assert_allclose(results[0], layer(x, use_causal_mask=True), atol=1e-5)
