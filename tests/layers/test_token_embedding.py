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


def test_unscaled():
    layer = TokenEmbedding(V, M, scale=False)
    np.testing.assert_array_equal(layer(np.array([3]))[0], layer.embeddings[3])


@pytest.mark.parametrize("shape", [(2, 3), (5,), (2, 3, 4)])
def test_in_reverse_gives_tied_logits(shape, random):
    layer = TokenEmbedding(V, M)
    vectors = random.normal(0, 1, (*shape, M))
    logits = layer(vectors.astype("float32"), reverse=True)
    expected = vectors @ layer.embeddings.numpy().astype("float64").T
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert len(layer.weights) == 1


def test_gradients_of_both_directions_meet_in_one_table(random):
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


def test_in_reverse_the_mask_passes():
    ids = keras.Input((None,), dtype="int32")
    layer = TokenEmbedding(V, M)
    model = keras.Model(ids, layer(layer(ids), reverse=True))
    assert model(np.array([[1, 0]]))._keras_mask.numpy().tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_in_every_policy(dtype):
    ids = keras.Input((None,), dtype="int32")
    layer = TokenEmbedding(V, M, dtype=dtype)
    embedded = layer(ids)
    logits = layer(embedded, reverse=True)
    assert embedded.dtype == layer.compute_dtype
    assert logits.dtype == "float32"
    assert keras.Model(ids, logits)(np.array([[1, 2]])).dtype == "float32"


@pytest.mark.parametrize("stray", [-1, V])
def test_ids_outside_the_vocabulary_are_no_tokens(stray):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{stray} is not in"):
        TokenEmbedding(V, M)(np.array([[1, stray]]))


def test_refuses_floats_and_wrong_widths():
    layer = TokenEmbedding(V, M, name="words")
    with pytest.raises(ValueError, match=r"'words' takes integer ids; got float32 \(None, 4\)"):
        layer(keras.Input((4,)))
    with pytest.raises(ValueError, match=r"vectors \[..., 8\]; got float32 \(None, 4, 5\)"):
        layer(keras.Input((4, 5)), reverse=True)
    with pytest.raises(ValueError, match=r"vectors \[..., 8\]; got int32"):
        layer(keras.Input((4, 8), dtype="int32"), reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a whole number of at least 1; got 0"),
        ({"hidden_dim": 2.5}, "`hidden_dim` must be a whole number of at least 1; got 2.5"),
        ({"padding_id": -1}, "`padding_id` must be a whole number of at least 0; got -1"),
        ({"vocabulary_size": True}, "`vocabulary_size` must be a whole number"),
        ({"padding_id": V}, "`padding_id` must be an id below vocabulary_size=11; got 11"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenEmbedding(**{"vocabulary_size": V, "hidden_dim": M, **arguments})


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize(
    ("jit_compile", "with_kernel"), [(False, False), (False, True), (True, False)]
)
def test_logits_of_a_step_are_those_of_the_call(rows, jit_compile, with_kernel):
    embedding = TokenEmbedding(vocabulary_size=11, hidden_dim=6)
    embedding(np.zeros((1, 1), "int32"))
    states = np.random.default_rng(rows).normal(size=(rows, 1, 6)).astype("float32")

    @tf.function(jit_compile=jit_compile, autograph=False, reduce_retracing=True)
    def of_step(states):
        kernel = embedding.output_kernel(tf.shape(states)[0]) if with_kernel else None
        return embedding.to_logits(states, kernel)

    np.testing.assert_allclose(of_step(states), embedding(states, reverse=True), atol=1e-6)
