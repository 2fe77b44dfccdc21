"""Where tokens lie in trees, in the graph, beside `DependencyTree`."""

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

# In the plain graph, and compiled for shapes that are known.
ways = pytest.mark.parametrize("jit", [False, True])


def random_heads(random, words, roots=1):
    """A tree of any shape: each word but the first hangs below one before it, in a random order."""
    order = random.permutation(words) + 1
    heads = np.zeros(words, int)
    for place, number in enumerate(order):
        if place >= roots:
            heads[number - 1] = order[random.integers(place)]
    return tuple(heads.tolist())


def padded(rows, width):
    return np.array([[*row, *[NO_HEAD] * (width - len(row))] for row in rows], np.int32)


def signed(tree):
    order = np.sign(np.arange(len(tree.words))[None, :] - np.arange(len(tree.words))[:, None])
    return tree.distances() * order


@ways
def test_random_trees_equal_the_plain_ones(jit, random):
    lengths = [1, 2, 3, 5, 8, 13, 14, 20]
    rows = [random_heads(random, n, roots) for n in lengths for roots in (1, 2)]
    chain = tuple(range(20))  # the deepest of all
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


def test_left_and_right_differ():
    """Of three children of one word, the first and the last are as far, on other sides."""
    distances = word_distances(tf.constant([[2, 0, 2, 2]])).numpy()[0]
    assert distances.tolist() == [[0, 1, 2, 2], [-1, 0, 1, 1], [-2, -1, 0, 2], [-2, -1, -2, 0]]


@pytest.mark.parametrize(
    ("heads", "depths"),
    [
        ([2, 1, 0], [0, 0, 1]),  # a circle, and a word outside
        ([2, 3, 4, 2, 0, 5], [0, 0, 0, 0, 1, 2]),  # a tail that runs into a circle
        ([1, 0], [0, 1]),  # its own head
        ([9, 0, 1, 2], [0, 1, 0, 2]),  # out of range, and what hangs below it
        ([-7, 0, 2**30], [0, 1, 0]),
        ([-1, -1], [0, 0]),
        ([4, 0, 2], [0, 1, 2]),  # the head is padding
    ],
)
@ways
def test_what_hangs_from_no_root_is_in_no_tree(heads, depths, jit):
    given = padded([heads], width=6)
    found = tf.function(word_depths, jit_compile=jit)(given).numpy()[0, : len(heads)]
    assert found.tolist() == depths
    distances = tf.function(word_distances, jit_compile=jit)(given).numpy()[0]
    is_in_tree = np.array(depths) > 0
    is_known = distances[: len(heads), : len(heads)] != UNRELATED
    np.testing.assert_array_equal(is_known, is_in_tree[:, None] & is_in_tree[None])


@ways
def test_tokens_take_over_their_words(jit):
    heads = tf.constant([[2, 0, 2], [0, NO_HEAD, NO_HEAD]])
    # Two pieces of a word, END, padding; and a word beyond the heads, as when they were cut.
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


def test_no_words_at_all():
    heads, words = tf.zeros([2, 0], tf.int32), tf.constant([[1, 0], [0, 0]])
    assert word_depths(heads).shape == (2, 0)
    assert word_distances(heads).shape == (2, 0, 0)
    assert not token_depths(words, heads).numpy().any()
    assert np.all(token_distances(words, heads) == UNRELATED)


@pytest.mark.parametrize(
    ("kind", "names"),
    [("absolute", ["depths"]), ("relative", ["relations"]), ("both", ["depths", "relations"])],
)
def test_the_layer_gives_what_is_asked_for(kind, names):
    words, heads = (keras.Input((None,), dtype="int32") for _ in range(2))
    layer = TreePositions(kind)
    places = layer(words, heads)
    assert sorted(places) == names
    shapes = {"depths": (None, None), "relations": (None, None, None)}
    assert {name: place.shape for name, place in places.items()} == {n: shapes[n] for n in names}
    model = keras.Model([words, heads], places)
    found = model([np.array([[1, 2, 0]]), np.array([[2, 0]])])
    for name in names:
        assert found[name].dtype == "int32"
        function = {"depths": token_depths, "relations": token_distances}[name]
        np.testing.assert_array_equal(found[name], function([[1, 2, 0]], [[2, 0]]))
    assert TreePositions.from_config(layer.get_config()).kind == kind


def test_another_kind():
    with pytest.raises(ValueError, match=r"`kind` must be one of .*'absolute'.*; got 'deep'"):
        TreePositions("deep")
