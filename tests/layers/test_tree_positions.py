"""Tests of depths and distances in trees, against `DependencyTree`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import DependencyTree
from keras_transformer.layers import TreePositions
from keras_transformer.layers.attention.relative import UNRELATED
from keras_transformer.layers.tree_positions import (
    token_depths,
    token_distances,
    word_depths,
    word_distances,
)
from keras_transformer.text import NO_HEAD

# Without and with XLA.
every_compilation = pytest.mark.parametrize("jit", [False, True])


def random_heads(random, words, roots=1):
    """Returns a random tree: the head of each word precedes it in a random order of the words."""
    order = random.permutation(words) + 1
    heads = np.zeros(words, int)
    for position, number in enumerate(order):
        if position >= roots:
            heads[number - 1] = order[random.integers(position)]
    return tuple(heads.tolist())


def padded(rows, width):
    return np.array([[*row, *[NO_HEAD] * (width - len(row))] for row in rows], np.int32)


def signed(tree):
    order = np.sign(np.arange(len(tree.words))[None, :] - np.arange(len(tree.words))[:, None])
    return tree.distances() * order


@every_compilation
def test_depths_and_distances_of_random_trees_equal_dependency_tree(jit, random):
    lengths = [1, 2, 3, 5, 8, 13, 14, 20]
    rows = [random_heads(random, n, roots) for n in lengths for roots in (1, 2)]
    chain = tuple(range(20))  # the deepest tree
    trees = [DependencyTree(("w",) * len(heads), heads) for heads in (*rows, chain)]
    heads = padded([tree.heads for tree in trees], width=23)
    depths = tf.function(word_depths, jit_compile=jit)(heads).numpy()
    distances = tf.function(word_distances, jit_compile=jit)(heads).numpy()
    assert depths.dtype == distances.dtype == np.int32
    for row, tree in enumerate(trees):
        count = len(tree.words)
        assert tuple(depths[row, :count]) == tree.depths()
        np.testing.assert_array_equal(distances[row, :count, :count], signed(tree))
        assert not depths[row, count:].any()
        assert np.all(distances[row, count:] == UNRELATED)
        assert np.all(distances[row, :, count:] == UNRELATED)


def test_distances_to_the_left_and_right_differ_in_sign():
    """Of three dependents of a word, the first and the last are on opposite sides."""
    distances = word_distances(tf.constant([[2, 0, 2, 2]])).numpy()[0]
    assert distances.tolist() == [[0, 1, 2, 2], [-1, 0, 1, 1], [-2, -1, 0, 2], [-2, -1, -2, 0]]


@pytest.mark.parametrize(
    ("heads", "depths"),
    [
        ([2, 1, 0], [0, 0, 1]),  # a cycle, and a word outside
        ([2, 3, 4, 2, 0, 5], [0, 0, 0, 0, 1, 2]),  # a path into a cycle
        ([1, 0], [0, 1]),  # its own head
        ([9, 0, 1, 2], [0, 1, 0, 2]),  # out of range, and its dependent
        ([-7, 0, 2**30], [0, 1, 0]),
        ([-1, -1], [0, 0]),
        ([4, 0, 2], [0, 1, 2]),  # the head is padding
    ],
)
@every_compilation
def test_words_without_a_path_to_a_root_are_outside_of_the_tree(heads, depths, jit):
    inputs = padded([heads], width=6)
    found = tf.function(word_depths, jit_compile=jit)(inputs).numpy()[0, : len(heads)]
    assert found.tolist() == depths
    distances = tf.function(word_distances, jit_compile=jit)(inputs).numpy()[0]
    is_in_tree = np.array(depths) > 0
    is_known = distances[: len(heads), : len(heads)] != UNRELATED
    np.testing.assert_array_equal(is_known, is_in_tree[:, None] & is_in_tree[None])


@every_compilation
def test_tokens_have_depths_and_distances_of_their_words(jit):
    heads = tf.constant([[2, 0, 2], [0, NO_HEAD, NO_HEAD]])
    # Two pieces of a word, the end token, padding; and a word without head, as after truncation.
    words = tf.constant([[1, 1, 2, 3, 0, 0], [1, 4, -1, 2, 0, 0]])
    depths = tf.function(token_depths, jit_compile=jit)(words, heads).numpy()
    assert depths.tolist() == [[2, 2, 1, 2, 0, 0], [1, 0, 0, 0, 0, 0]]
    distances = tf.function(token_distances, jit_compile=jit)(words, heads).numpy()
    assert distances[0, :4, :4].tolist() == [
        [0, 0, 1, 2], [0, 0, 1, 2], [-1, -1, 0, 1], [-2, -2, -1, 0]
    ]  # fmt: skip
    assert np.all(distances[0, 4:] == UNRELATED)
    assert np.all(distances[0, :, 4:] == UNRELATED)
    assert (distances[1] != UNRELATED).sum() == 1


def test_empty_trees_are_accepted():
    heads, words = tf.zeros([2, 0], tf.int32), tf.constant([[1, 0], [0, 0]])
    assert word_depths(heads).shape == (2, 0)
    assert word_distances(heads).shape == (2, 0, 0)
    assert not token_depths(words, heads).numpy().any()
    assert np.all(token_distances(words, heads) == UNRELATED)


@pytest.mark.parametrize(
    ("kind", "names"),
    [("absolute", ["depths"]), ("relative", ["relations"]), ("both", ["depths", "relations"])],
)
def test_layer_returns_the_positions_of_its_kind(kind, names):
    words, heads = (keras.Input((None,), dtype="int32") for _ in range(2))
    layer = TreePositions(kind)
    positions = layer(words, heads)
    assert sorted(positions) == names
    shapes = {"depths": (None, None), "relations": (None, None, None)}
    assert {name: each.shape for name, each in positions.items()} == {n: shapes[n] for n in names}
    model = keras.Model([words, heads], positions)
    found = model([np.array([[1, 2, 0]]), np.array([[2, 0]])])
    for name in names:
        assert found[name].dtype == "int32"
        function = {"depths": token_depths, "relations": token_distances}[name]
        np.testing.assert_array_equal(found[name], function([[1, 2, 0]], [[2, 0]]))
    assert TreePositions.from_config(layer.get_config()).kind == kind


def test_unknown_kind_raises_value_error():
    with pytest.raises(ValueError, match=r"`kind`.*'absolute'.*'deep'"):
        TreePositions("deep")
