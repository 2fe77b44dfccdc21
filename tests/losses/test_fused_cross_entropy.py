"""Tests of the fused output layer and loss, against the dense computation."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Perplexity, TokenAccuracy, TokenCrossEntropy, Transformer
from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers.token_embedding import LogitProjection
from keras_transformer.losses import fused_cross_entropy as module
from keras_transformer.losses.cross_entropy import token_totals

HIDDEN_DIM, VOCABULARY = 8, 50
GENERATOR = np.random.default_rng(7)
TABLE = GENERATOR.normal(size=(VOCABULARY, HIDDEN_DIM)).astype("float32")


def batch(rows, length, padding=0.4):
    """Returns states and labels, of which 0 is padding."""
    states = GENERATOR.normal(size=(rows, length, HIDDEN_DIM)).astype("float32")
    labels = GENERATOR.integers(1, VOCABULARY, (rows, length)).astype("int32")
    labels[GENERATOR.random((rows, length)) < padding] = 0
    return states, labels


def totals_and_gradients(
    states, labels, *, fused, training=True, smoothing=0.1, weights=None, consistency=0.0
):
    """Returns a function for totals and gradients of a multiple of the loss, and its inputs."""

    def run(states, table):
        with tf.GradientTape() as tape:
            tape.watch([states, table])
            flat = tf.reshape(states, [-1, HIDDEN_DIM])
            logits = tf.reshape(
                tf.matmul(flat, table, transpose_b=True), [*states.shape[:2], VOCABULARY]
            )
            if fused:
                LogitProjection(flat, table, tf.shape(states)[:-1], training).attach_to(logits)
            totals = token_totals(tf.constant(labels), logits, smoothing, 0, weights, consistency)
            scaled = totals.loss * 3.0
        return totals, tape.gradient(scaled, [states, table])

    return run, (tf.constant(states), tf.constant(TABLE))


def assert_equal(found, expected):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, expected
    )


@pytest.fixture(params=[1, 7, 10**6], ids=lambda tokens: f"{tokens} at once")
def at_once(request, monkeypatch):
    """Chunks of one token, of a few, and of all tokens."""
    monkeypatch.setattr(module, "_LOGITS_ON_CPU", request.param * VOCABULARY)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_totals_and_gradients_equal_dense_computation(at_once, smoothing, training):
    states, labels = batch(4, 6)
    settings = {"smoothing": smoothing, "training": training}
    fused, arguments = totals_and_gradients(states, labels, fused=True, **settings)
    dense, _ = totals_and_gradients(states, labels, fused=False, **settings)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize("padding", [0.0, 1.0])
def test_batch_of_only_tokens_or_only_padding_equals_dense_computation(at_once, padding):
    states, labels = batch(3, 5, padding)
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    dense, _ = totals_and_gradients(states, labels, fused=False)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_empty_batch_has_zero_totals_and_gradients(shape):
    fused, arguments = totals_and_gradients(*batch(*shape), fused=True)
    totals, gradients = tf.function(fused)(*arguments)
    assert [float(total) for total in totals] == [0.0] * 4
    assert not np.any(gradients[1])


@pytest.mark.parametrize("weights", [[0.5, 0.0, -2.0], [[1.0, 0.0, 3.0, 0.5]] * 3])
def test_sample_weights_equal_dense_computation(at_once, weights):
    states, labels = batch(3, 4)
    weights = tf.constant(weights)
    fused, arguments = totals_and_gradients(states, labels, fused=True, weights=weights)
    dense, _ = totals_and_gradients(states, labels, fused=False, weights=weights)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize(("padding", "jit_compile"), [(0.0, True), (0.4, False), (1.0, True)])
def test_r_drop_equals_dense_computation(at_once, padding, jit_compile):
    states, _ = batch(6, 5)
    _, labels = batch(3, 5, padding)
    settings = {"labels": np.tile(labels, (2, 1)), "consistency": 5.0}
    fused, arguments = totals_and_gradients(states, fused=True, **settings)
    dense, _ = totals_and_gradients(states, fused=False, **settings)
    assert_equal(tf.function(fused, jit_compile=jit_compile)(*arguments), dense(*arguments))


def test_large_logits_do_not_overflow():
    states, labels = batch(4, 6)
    fused, arguments = totals_and_gradients(1e4 * states, labels, fused=True)
    dense, _ = totals_and_gradients(1e4 * states, labels, fused=False)
    totals, gradients = tf.function(fused)(*arguments)
    expected, expected_gradients = dense(*arguments)
    np.testing.assert_allclose(totals, expected, rtol=1e-4)
    np.testing.assert_allclose(gradients[0], expected_gradients[0], rtol=1e-4, atol=1e-3)


def test_xla_equals_dense_computation(at_once):
    states, labels = batch(4, 6)
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    dense, _ = totals_and_gradients(states, labels, fused=False)
    assert_equal(tf.function(fused, jit_compile=True)(*arguments), dense(*arguments))


@pytest.mark.parametrize("label", [-1, VOCABULARY])
def test_label_outside_of_the_vocabulary_raises_or_gives_nan(label):
    states, labels = batch(1, 2, padding=0.0)
    labels[0, 1] = label
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(fused)(*arguments)
    totals, _ = tf.function(fused, jit_compile=True)(*arguments)
    assert np.isnan(totals.loss)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_close_to_dense_computation(policy):
    states, labels = batch(4, 6)
    embedding = TokenEmbedding(VOCABULARY, HIDDEN_DIM, dtype=policy)
    embedding.build(None)
    embedding.embeddings.assign(TABLE)

    @tf.function
    def gradients(states, is_unchanged):
        with tf.GradientTape() as tape:
            tape.watch(states)
            logits = embedding(tf.cast(states, embedding.compute_dtype), reverse=True)
            loss = TokenCrossEntropy(0.1)(labels, logits if is_unchanged else tf.identity(logits))
        return loss, tape.gradient(loss, [states, embedding.embeddings.value])

    fused, dense = (gradients(tf.constant(states), flag) for flag in (True, False))
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0.05, atol=2e-3), fused, dense
    )


def make_model(**settings):
    keras.utils.set_random_seed(3)
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=VOCABULARY,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
        **settings,
    )
    metrics = [TokenAccuracy(), Perplexity()]
    model.compile(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), metrics=metrics)
    return model


def pairs():
    source = GENERATOR.integers(1, VOCABULARY, (4, 5)).astype("int32")
    target = GENERATOR.integers(1, VOCABULARY, (4, 6)).astype("int32")
    labels = target.copy()
    labels[2:, 4:] = 0
    return {"source": source, "target": target}, labels


def test_fit_with_metrics_equals_eager_fit_with_dense_logits():
    inputs, labels = pairs()
    histories, weights = [], []
    for eagerly in (False, True):
        model = make_model()
        model.run_eagerly = eagerly
        histories.append(model.fit(inputs, labels, epochs=2, verbose=0).history)
        weights.append(model.get_weights())
        histories[-1] |= {f"test_{k}": v for k, v in evaluate(model, inputs, labels).items()}
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=1e-4, err_msg=name)
    for found, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def evaluate(model, inputs, labels):
    return model.evaluate(inputs, labels, verbose=0, return_dict=True)


def test_loss_and_metrics_share_one_computation(monkeypatch):
    calls = []
    inner = module._add_up
    monkeypatch.setattr(module, "_add_up", lambda *a: calls.append(a[-1]) or inner(*a))
    inputs, labels = pairs()
    model = make_model()
    model.optimizer.build(model.trainable_variables)
    model.fit(inputs, labels, verbose=0)
    assert calls == [True]  # with gradients, in the same loop
    model.evaluate(inputs, labels, verbose=0)
    assert calls == [True, False]


def computed(function):
    """Returns the names of the operations on which results and effects of a function depend."""
    waiting = [tensor.op for tensor in function.graph.outputs] + function.graph.control_outputs
    found = set()
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs] + operation.control_inputs
    return found


@pytest.mark.parametrize("is_unchanged", [True, False])
def test_unchanged_logits_are_never_computed(is_unchanged):
    """Nothing depends on the product with the whole table, so TensorFlow removes it."""
    model = make_model()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
    def train_step(source, target, labels):
        with tf.GradientTape() as tape:
            logits = model({"source": source, "target": target}, training=True)
            loss = model.loss(labels, logits if is_unchanged else tf.identity(logits))
        return loss, tape.gradient(loss, model.trainable_variables)

    names = computed(train_step.get_concrete_function())
    assert any("decoder" in name for name in names)
    products = [name for name in names if re.search(r"^transformer.*embedding\w*/MatMul$", name)]
    assert len(products) == (0 if is_unchanged else 1), products


def test_changed_logits_have_no_projection():
    embedding = TokenEmbedding(VOCABULARY, HIDDEN_DIM)
    states, labels = batch(2, 3, padding=0.0)

    @tf.function
    def loss(temperature):
        logits = embedding(states, reverse=True) / temperature
        assert LogitProjection.of(logits) is None
        return TokenCrossEntropy()(labels, logits)

    assert loss(100.0) < loss(1.0)  # the loss of flat logits is log V
