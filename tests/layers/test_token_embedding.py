"""Tests of the token embedding and its logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.layers import TokenEmbedding

V, M = 11, 8


def test_values_equal_numpy():
    layer = TokenEmbedding(V, M)
    ids = np.array([[1, 5, 0], [10, 0, 0]])
    embedded = layer(ids)
    table = layer.embeddings.numpy().astype("float64")
    np.testing.assert_allclose(embedded, table[ids] * np.sqrt(M), atol=1e-5)
    np.testing.assert_allclose(TokenEmbedding.from_config(layer.get_config())(ids).shape, (2, 3, M))


def test_without_scale_returns_rows_of_the_table():
    layer = TokenEmbedding(V, M, scale=False)
    np.testing.assert_array_equal(layer(np.array([3]))[0], layer.embeddings[3])


@pytest.mark.parametrize("shape", [(2, 3), (5,), (2, 3, 4)])
def test_reverse_returns_logits_of_the_same_table(shape, random):
    layer = TokenEmbedding(V, M)
    vectors = random.normal(0, 1, (*shape, M))
    logits = layer(vectors.astype("float32"), reverse=True)
    expected = vectors @ layer.embeddings.numpy().astype("float64").T
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert len(layer.weights) == 1


def test_gradients_of_both_directions_are_summed(random):
    layer = TokenEmbedding(V, M)
    ids = np.array([[1, 2]])
    layer(ids)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(layer(ids), reverse=True) ** 2)
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embeddings.value)).numpy()

    table = layer.embeddings.numpy().astype("float64")

    def value(table):
        embedded = table[ids] * np.sqrt(M)
        return np.sum((embedded @ table.T) ** 2)

    for index in ((1, 0), (2, 3), (7, 5)):
        nudge = np.zeros_like(table)
        nudge[index] = 1e-6
        expected = (value(table + nudge) - value(table - nudge)) / 2e-6
        np.testing.assert_allclose(gradient[index], expected, rtol=1e-4)


def test_padding_is_masked():
    layer = TokenEmbedding(V, M, padding_id=2)
    assert layer(np.array([[1, 2, 0]]))._keras_mask.numpy().tolist() == [[True, False, True]]


def test_reverse_passes_the_mask_on():
    ids = keras.Input((None,), dtype="int32")
    layer = TokenEmbedding(V, M)
    model = keras.Model(ids, layer(layer(ids), reverse=True))
    assert model(np.array([[1, 0]]))._keras_mask.numpy().tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_with_every_dtype_policy(dtype):
    ids = keras.Input((None,), dtype="int32")
    layer = TokenEmbedding(V, M, dtype=dtype)
    embedded = layer(ids)
    logits = layer(embedded, reverse=True)
    assert embedded.dtype == layer.compute_dtype
    assert logits.dtype == "float32"
    assert keras.Model(ids, logits)(np.array([[1, 2]])).dtype == "float32"


@pytest.mark.parametrize("stray", [-1, V])
def test_ids_outside_of_the_vocabulary_raise(stray):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{stray} is not in"):
        TokenEmbedding(V, M)(np.array([[1, stray]]))


def test_inputs_of_wrong_dtype_or_size_raise_value_error():
    layer = TokenEmbedding(V, M, name="words")
    with pytest.raises(ValueError, match=r"'words'.*integer ids; got float32 \(None, 4\)"):
        layer(keras.Input((4,)))
    with pytest.raises(ValueError, match=r", 8\]; got float32 \(None, 4, 5\)"):
        layer(keras.Input((4, 5)), reverse=True)
    with pytest.raises(ValueError, match=r", 8\]; got int32"):
        layer(keras.Input((4, 8), dtype="int32"), reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, r"`vocabulary_size`.*at least 1; got 0"),
        ({"hidden_dim": 2.5}, r"`hidden_dim`.*at least 1; got 2.5"),
        ({"padding_id": -1}, r"`padding_id`.*at least 0; got -1"),
        ({"vocabulary_size": True}, r"`vocabulary_size`.*got True"),
        ({"padding_id": V}, r"`padding_id`.*vocabulary_size=11; got 11"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenEmbedding(**{"vocabulary_size": V, "hidden_dim": M, **arguments})


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize(
    ("jit_compile", "with_kernel"), [(False, False), (False, True), (True, False)]
)
def test_to_logits_equals_reverse_call(rows, jit_compile, with_kernel):
    embedding = TokenEmbedding(vocabulary_size=11, hidden_dim=6)
    embedding(np.zeros((1, 1), "int32"))
    states = np.random.default_rng(rows).normal(size=(rows, 1, 6)).astype("float32")

    @tf.function(jit_compile=jit_compile, autograph=False, reduce_retracing=True)
    def to_logits(states):
        kernel = embedding.output_kernel(tf.shape(states)[0]) if with_kernel else None
        return embedding.to_logits(states, kernel)

    np.testing.assert_allclose(to_logits(states), embedding(states, reverse=True), atol=1e-6)
