"""Changed attention weights: their effect, and that the model is restored."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.analysis.explain.measurements import (
    all_layers,
    changed_weights,
    cross_mechanisms,
    divergence,
    replaced_method,
    shuffle_weights,
    total_variation,
    uniform_weights,
)
from keras_transformer.layers import PointerGenerator
from keras_transformer.layers.attention.chunked import ChunkedAttention
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from tests.analysis.explain.small_pair import SOURCE, TARGET, make_pair


@pytest.fixture(scope="module")
def pair():
    return make_pair()


def logits(pair):
    return pair.model({"source": SOURCE[None], "target": TARGET[None]}).numpy()


def test_same_weights_change_nothing(pair):
    seen = []

    def look(weights):
        seen.append(weights)
        return weights

    own = logits(pair)
    with changed_weights(cross_mechanisms(pair.model), look):
        np.testing.assert_array_equal(logits(pair), own)
    # The weights are those of cross-attention, in the order of the blocks.
    np.testing.assert_allclose(
        tf.stack(seen, axis=1), pair.attention_weights()["cross"][None], atol=1e-6
    )


def test_model_is_restored_after_an_error(pair):
    own, mechanisms = logits(pair), cross_mechanisms(pair.model)

    def mistake(weights):
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"), changed_weights(mechanisms, mistake):
        logits(pair)
    with changed_weights(mechanisms, lambda weights: 2 * weights):
        assert np.abs(logits(pair) - own).max() > 1e-3
    np.testing.assert_array_equal(logits(pair), own)


def test_shuffled_weights_are_permutations_of_the_own_weights(pair):
    (first, second), mixed = cross_mechanisms(pair.model), []

    def listening(mix):
        def listen(weights, *arguments):
            mixed.append(weights.numpy())
            return mix(weights, *arguments)

        return listen

    with replaced_method(first, "combine_values", listening):
        change = shuffle_weights(pair, [first, second], draws=6, seed=1)
    own, shuffled = mixed[0], mixed[-1]  # [1, H, T, S] and [6, H, T, S]
    np.testing.assert_allclose(np.sort(shuffled), np.tile(np.sort(own), (6, 1, 1, 1)), atol=1e-6)
    assert len({row.tobytes() for row in np.argsort(shuffled).reshape(-1, 5)}) > 20
    assert change.total_variation.shape == (6, 4)
    assert 0 < change.total_variation.min() < change.total_variation.max() < 1
    again = shuffle_weights(pair, [first, second], draws=6, seed=1)
    np.testing.assert_array_equal(again.total_variation, change.total_variation)
    other = shuffle_weights(pair, [first, second], draws=6, seed=2)
    assert np.abs(other.total_variation - change.total_variation).max() > 1e-4


def test_uniform_weights_average_the_values(pair):
    mechanisms = cross_mechanisms(pair.model)
    change = uniform_weights(pair, mechanisms)
    own = tf.nn.softmax(logits(pair)).numpy()[0]
    with changed_weights(mechanisms, lambda weights: tf.fill(weights.shape, 1 / 5)):
        even = tf.nn.softmax(logits(pair)).numpy()[0]
    np.testing.assert_allclose(change.total_variation[0], total_variation(own, even), atol=1e-6)
    np.testing.assert_allclose(change.divergence[0], divergence(own, even), atol=1e-6)
    np.testing.assert_array_equal(change.is_other[0], own.argmax(-1) != even.argmax(-1))


def test_copied_tokens_follow_the_changed_weights():
    pair = make_pair(copies=True)
    (pointer,) = [each for each in all_layers(pair.model) if isinstance(each, PointerGenerator)]
    pointer.bias.assign(tf.fill(pointer.bias.shape, -20.0))  # it copies only
    with changed_weights(cross_mechanisms(pair.model), lambda weights: tf.fill(weights.shape, 0.2)):
        written = tf.nn.softmax(logits(pair)).numpy()[0]
    expected = np.bincount(SOURCE, minlength=20) / len(SOURCE)
    np.testing.assert_allclose(written, np.tile(expected, (len(TARGET), 1)), atol=1e-4)


def test_distances_equal_values_by_hand():
    first, second = np.array([0.5, 0.5, 0.0]), np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(total_variation(first, second), [0, 0.5])
    # Half of the probability belongs to different tokens.
    np.testing.assert_allclose(divergence(first, second), [0, 0.5])


def test_mechanism_of_a_recurrent_decoder_is_found():
    """Its decoder has a mechanism and no layer `cross_attention`."""
    states, memory = keras.Input((1, None, 8)), keras.Input((1, None, 8))
    attend = ScaledDotProductAttention()
    model = keras.Model([states, memory], keras.layers.Dense(4)(attend(states, memory, memory)))
    assert cross_mechanisms(model) == [attend]


def test_chunked_mechanism_is_left_out():
    states, memory = keras.Input((1, None, 8)), keras.Input((1, None, 8))
    model = keras.Model([states, memory], ChunkedAttention(chunk_size=4)(states, memory, memory))
    assert cross_mechanisms(model) == []
