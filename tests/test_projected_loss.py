"""Output layer and loss in one, against the two one after the other."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Perplexity, TokenAccuracy, TokenCrossEntropy, Transformer
from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers.token_embedding import Projection, projection_of
from keras_transformer.losses import fused_cross_entropy as module
from keras_transformer.losses.cross_entropy import token_totals

WIDTH, VOCABULARY = 8, 50
GENERATOR = np.random.default_rng(7)
TABLE = GENERATOR.normal(size=(VOCABULARY, WIDTH)).astype("float32")


def batch(rows, length, padding=0.4):
    """States, labels (0 is padding) and the gradient's upstream factor."""
    states = GENERATOR.normal(size=(rows, length, WIDTH)).astype("float32")
    labels = GENERATOR.integers(1, VOCABULARY, (rows, length)).astype("int32")
    labels[GENERATOR.random((rows, length)) < padding] = 0
    return states, labels


def totals_and_gradients(
    states, labels, *, fused, training=True, smoothing=0.1, weights=None, consistency=0.0
):
    """`TokenTotals` and the gradients of a multiple of the loss, through one graph."""

    def run(states, table):
        with tf.GradientTape() as tape:
            tape.watch([states, table])
            flat = tf.reshape(states, [-1, WIDTH])
            logits = tf.reshape(
                tf.matmul(flat, table, transpose_b=True), [*states.shape[:2], VOCABULARY]
            )
            if fused:
                mark = Projection(flat, table, tf.shape(states)[:-1], training)
                logits._keras_transformer_projection = mark
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
    """Parts of one token, of a few, and all tokens in one."""
    monkeypatch.setattr(module, "_LOGITS_ON_CPU", request.param * VOCABULARY)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_totals_and_gradients_equal_the_dense_ones(at_once, smoothing, training):
    states, labels = batch(4, 6)
    settings = {"smoothing": smoothing, "training": training}
    fused, arguments = totals_and_gradients(states, labels, fused=True, **settings)
    dense, _ = totals_and_gradients(states, labels, fused=False, **settings)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize("padding", [0.0, 1.0])
def test_batches_without_padding_and_without_tokens(at_once, padding):
    states, labels = batch(3, 5, padding)
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    dense, _ = totals_and_gradients(states, labels, fused=False)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_batches_of_nothing(shape):
    fused, arguments = totals_and_gradients(*batch(*shape), fused=True)
    totals, gradients = tf.function(fused)(*arguments)
    assert [float(total) for total in totals] == [0.0] * 4
    assert not np.any(gradients[1])


@pytest.mark.parametrize("weights", [[0.5, 0.0, -2.0], [[1.0, 0.0, 3.0, 0.5]] * 3])
def test_sample_weights_count(at_once, weights):
    states, labels = batch(3, 4)
    weights = tf.constant(weights)
    fused, arguments = totals_and_gradients(states, labels, fused=True, weights=weights)
    dense, _ = totals_and_gradients(states, labels, fused=False, weights=weights)
    assert_equal(tf.function(fused)(*arguments), dense(*arguments))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("padding", [0.0, 0.4, 1.0])
def test_two_predictions_of_the_same_tokens(at_once, padding, jit_compile):
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


def test_compiled_by_xla_it_is_the_same(at_once):
    states, labels = batch(4, 6)
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    dense, _ = totals_and_gradients(states, labels, fused=False)
    assert_equal(tf.function(fused, jit_compile=True)(*arguments), dense(*arguments))


@pytest.mark.parametrize("label", [-1, VOCABULARY])
def test_label_outside_the_vocabulary_is_never_taken_for_another(label):
    states, labels = batch(1, 2, padding=0.0)
    labels[0, 1] = label
    fused, arguments = totals_and_gradients(states, labels, fused=True)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(fused)(*arguments)
    totals, _ = tf.function(fused, jit_compile=True)(*arguments)
    assert np.isnan(totals.loss)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_near_the_dense_way(policy):
    states, labels = batch(4, 6)
    embedding = TokenEmbedding(VOCABULARY, WIDTH, dtype=policy)
    embedding.build(None)
    embedding.embeddings.assign(TABLE)

    @tf.function
    def gradients(states, as_they_are):
        with tf.GradientTape() as tape:
            tape.watch(states)
            logits = embedding(tf.cast(states, embedding.compute_dtype), reverse=True)
            loss = TokenCrossEntropy(0.1)(labels, logits if as_they_are else tf.identity(logits))
        return loss, tape.gradient(loss, [states, embedding.embeddings.value])

    fused, dense = (gradients(tf.constant(states), flag) for flag in (True, False))
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0.05, atol=2e-3), fused, dense
    )


def make_model(**settings):
    keras.utils.set_random_seed(3)
    model = Transformer.from_preset(
        "tiny", vocabulary_size=VOCABULARY, hidden_dim=WIDTH, num_heads=2, dropout=0.0, **settings
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


def test_fit_with_metrics_is_that_of_eager_mode_where_logits_are_dense():
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


def test_loss_and_metrics_share_one_pass_over_the_logits(monkeypatch):
    calls = []
    inner = module._add_up
    monkeypatch.setattr(module, "_add_up", lambda *a: calls.append(a[-1]) or inner(*a))
    inputs, labels = pairs()
    model = make_model()
    model.optimizer.build(model.trainable_variables)
    model.fit(inputs, labels, verbose=0)
    assert calls == [True]  # with gradients, in the same pass
    model.evaluate(inputs, labels, verbose=0)
    assert calls == [True, False]


def computed(function):
    """The names of all operations that a concrete function's results and effects depend on."""
    waiting = [tensor.op for tensor in function.graph.outputs] + function.graph.control_outputs
    found = set()
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs] + operation.control_inputs
    return found


@pytest.mark.parametrize("as_they_are", [True, False])
def test_all_logits_are_never_there(as_they_are):
    """TensorFlow does not compute what nothing depends on: the product with the whole table."""
    model = make_model()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
    def update(source, target, labels):
        with tf.GradientTape() as tape:
            logits = model({"source": source, "target": target}, training=True)
            loss = model.loss(labels, logits if as_they_are else tf.identity(logits))
        return loss, tape.gradient(loss, model.trainable_variables)

    names = computed(update.get_concrete_function())
    assert any("decoder" in name for name in names)
    products = [name for name in names if re.search(r"^transformer.*embedding\w*/MatMul$", name)]
    assert len(products) == (0 if as_they_are else 1), products


def test_changed_logits_go_the_dense_way():
    embedding = TokenEmbedding(VOCABULARY, WIDTH)
    states, labels = batch(2, 3, padding=0.0)

    @tf.function
    def loss(temperature):
        logits = embedding(states, reverse=True) / temperature
        assert projection_of(logits) is None
        return TokenCrossEntropy()(labels, logits)

    assert loss(100.0) < loss(1.0)  # flat logits cost log V and no more
