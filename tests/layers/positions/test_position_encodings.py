"""Tests of single position encodings; tests of all of them are in contracts/test_positions.py."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import PositionEmbedding, SinePositionEncoding


def sinusoids(positions, hidden_dim=16):
    layer = SinePositionEncoding()
    zeros = np.zeros((1, len(positions), hidden_dim), "float32")
    return layer(zeros, positions=np.array(positions)).numpy()[0].astype("float64")


@pytest.mark.parametrize("shift", [1, 7, 500, -3])
def test_sinusoids_of_a_shift_are_a_rotation(shift):
    """p(i + k) = R(k) p(i), where R(k) is a matrix of 2×2 rotations that does not depend on i."""
    hidden_dim, positions = 16, np.arange(3, 60)
    transform = np.zeros((hidden_dim, hidden_dim))
    for i in range(hidden_dim // 2):
        angle = shift / 10_000 ** (2 * i / hidden_dim)
        block = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        transform[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    shifted = sinusoids(positions + shift, hidden_dim)
    np.testing.assert_allclose(shifted, sinusoids(positions, hidden_dim) @ transform.T, atol=1e-6)


def test_sinusoids_of_large_positions_are_exact():
    position, hidden_dim = 1_000_003, 512
    angles = position / 10_000 ** (2 * np.arange(hidden_dim // 2) / hidden_dim)
    expected = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1)
    np.testing.assert_allclose(sinusoids([position], hidden_dim)[0], expected, atol=1e-6)


def test_sinusoids_have_no_weights():
    layer = SinePositionEncoding()
    layer(np.zeros((1, 3, 4), "float32"))
    assert layer.weights == []


def test_sinusoids_of_odd_hidden_dim_raise_value_error():
    with pytest.raises(ValueError, match=r"`hidden_dim`.*even; got 7.*6 or 8"):
        SinePositionEncoding()(np.zeros((1, 3, 7), "float32"))


TOO_LONG = r"positions 0 to 4 \(max_length=5\).*SinePositionEncoding"


def test_position_embedding_beyond_max_length_raises_eagerly():
    layer = PositionEmbedding(5)
    assert layer(np.zeros((1, 5, 4), "float32")).shape == (1, 5, 4)
    with pytest.raises(ValueError, match=TOO_LONG):
        layer(np.zeros((1, 6, 4), "float32"))
    with pytest.raises(ValueError, match=TOO_LONG):
        layer(np.zeros((1, 2, 4), "float32"), offset=4)
    with pytest.raises(ValueError, match=TOO_LONG):
        layer(np.zeros((1, 2, 4), "float32"), positions=np.array([0, 5]))
    with pytest.raises(ValueError, match=TOO_LONG):
        layer(np.zeros((1, 2, 4), "float32"), positions=np.array([-1, 0]))


def test_position_embedding_accepts_packed_rows_longer_than_max_length():
    layer = PositionEmbedding(3)
    x = np.zeros((1, 6, 4), "float32")
    packed = layer(x, positions=np.array([[0, 1, 2, 0, 1, 2]]))
    np.testing.assert_array_equal(packed[:, :3], packed[:, 3:])


@pytest.mark.parametrize(("length", "offset"), [(6, 0), (2, 4)])
def test_position_embedding_beyond_max_length_raises_in_a_graph(length, offset):
    layer = PositionEmbedding(5)
    layer.build((None, None, 4))

    @tf.function(
        input_signature=[tf.TensorSpec([1, None, 4]), tf.TensorSpec([], tf.int32)], autograph=False
    )
    def function(x, offset):
        return layer(x, offset=offset)

    assert function(tf.zeros([1, 2, 4]), tf.constant(3)).shape == (1, 2, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match=TOO_LONG):
        function(tf.zeros([1, length, 4]), tf.constant(offset))


def test_position_embedding_beyond_max_length_raises_under_xla():
    layer = PositionEmbedding(5)
    layer.build((None, None, 4))
    with pytest.raises(ValueError, match=TOO_LONG):
        tf.function(layer, jit_compile=True)(tf.zeros([1, 6, 4]))


@pytest.mark.parametrize("max_length", [0, -1, 2.5, None])
def test_position_embedding_without_valid_max_length_raises_value_error(max_length):
    with pytest.raises(ValueError, match=r"`max_length`.*at least 1"):
        PositionEmbedding(max_length)


def test_sines_precede_the_cosines_without_interleaving(random):
    x = random.normal(0, 1, (1, 5, 8)).astype("float32")
    halves = SinePositionEncoding(interleaved=False)(x) - x
    pairs = (SinePositionEncoding()(x) - x).numpy().reshape(1, 5, 4, 2)
    expected = np.concatenate([pairs[..., 0], pairs[..., 1]], axis=-1)
    np.testing.assert_allclose(halves, expected, atol=1e-6)
