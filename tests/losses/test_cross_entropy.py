"""Tests of the loss: its definition in float64, and two replicas against one device.

Run as a script, this file prints the results that `test_two_replicas_*` compare: replicas on the
CPU must be configured before TensorFlow starts, so they need their own process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer
from keras_transformer.losses.cross_entropy import TokenCrossEntropy, token_cross_entropy
from keras_transformer.metrics import Perplexity, TokenAccuracy

VOCABULARY = 11


def smoothed_target(labels, vocabulary, label_smoothing):
    one_hot = np.eye(vocabulary)[labels]
    return (1 - label_smoothing) * one_hot + label_smoothing / vocabulary


def log_softmax(logits):
    shifted = logits.astype("float64") - logits.max(axis=-1, keepdims=True).astype("float64")
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def reference(labels, logits, label_smoothing):
    target = smoothed_target(labels, logits.shape[-1], label_smoothing)
    return -(target * log_softmax(logits)).sum(axis=-1)


def random_batch(shape=(4, 6), vocabulary=VOCABULARY, scale=3.0, offset=0.0, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, vocabulary, shape)
    logits = random.uniform(-scale, scale, (*shape, vocabulary)) + offset
    return labels, logits.astype("float32")


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize(("scale", "offset"), [(3, 0), (1e4, 0), (3, 1e4), (3, -1e4)])
@pytest.mark.parametrize("shape", [(4, 6), (24,)])
def test_token_cross_entropy_equals_the_definition(shape, scale, offset, label_smoothing):
    labels, logits = random_batch(shape, 1000, scale, offset)
    losses = token_cross_entropy(labels, logits, label_smoothing)
    assert losses.dtype == tf.float32
    assert losses.shape == shape
    expected = reference(labels, logits, label_smoothing)
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-5)


def test_label_smoothing_equals_keras():
    labels, logits = random_batch((30,))
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.3)
    expected = keras_loss(keras.ops.one_hot(labels, VOCABULARY), logits)
    ours = TokenCrossEntropy(label_smoothing=0.3, padding_id=VOCABULARY)(labels, logits)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [3.0, 1e4])
def test_gradient_equals_the_definition_and_is_zero_at_padding(scale, label_smoothing):
    labels, logits = random_batch(scale=scale)
    labels[:, 4:] = 0
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        loss = TokenCrossEntropy(label_smoothing)(labels, variable)
    gradient = tape.gradient(loss, variable).numpy()
    is_token = labels != 0
    target = smoothed_target(labels, VOCABULARY, label_smoothing)
    expected = (np.exp(log_softmax(logits)) - target) * is_token[..., None] / is_token.sum()
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    assert (gradient[~is_token] == 0).all()


def test_second_derivative_equals_that_of_log_softmax():
    _, logits = random_batch((1,), 5)
    variable = tf.Variable(logits)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = TokenCrossEntropy(0.1)([3], variable)
        gradient = inner.gradient(loss, variable)
    curvature = outer.jacobian(gradient, variable).numpy()[0, :, 0]
    softmax = np.exp(log_softmax(logits))[0]
    np.testing.assert_allclose(curvature, np.diag(softmax) - np.outer(softmax, softmax), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_computed_in_float32(dtype):
    labels, logits = random_batch(vocabulary=500)
    half = tf.Variable(tf.cast(logits, dtype))
    with tf.GradientTape() as tape:
        losses = token_cross_entropy(labels, half, 0.1)
    assert losses.dtype == tf.float32
    expected = reference(labels, tf.cast(half, "float32").numpy(), 0.1)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    assert tape.gradient(losses, half).dtype == dtype


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    extra_columns=st.integers(0, 4),
    extra_rows=st.integers(0, 2),
    seed=st.integers(0, 999),
)
def test_loss_is_the_mean_over_tokens_for_any_padding(lengths, extra_columns, extra_rows, seed):
    shape = (len(lengths) + extra_rows, 5 + extra_columns)
    labels, logits = random_batch(shape, seed=seed)
    labels = np.maximum(labels, 1)
    token_losses = []
    for row, length in enumerate([*lengths, *[0] * extra_rows]):
        token_losses.extend(reference(labels[row, :length], logits[row, :length], 0.1))
        labels[row, length:] = 0
    expected = np.mean(token_losses) if token_losses else 0.0
    np.testing.assert_allclose(TokenCrossEntropy(0.1)(labels, logits), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_batch_without_tokens_has_loss_and_gradient_zero(shape):
    logits = tf.Variable(tf.ones([*shape, VOCABULARY]))
    with tf.GradientTape() as tape:
        loss = TokenCrossEntropy(0.1)(np.zeros(shape, "int32"), logits)
    assert float(loss) == 0.0
    assert not np.any(tape.gradient(loss, logits))


def test_labels_may_be_floats_or_short_integers():
    labels, logits = random_batch()
    for dtype in ("float32", "uint8", "int64"):
        loss = TokenCrossEntropy(0.1)(labels.astype(dtype), logits)
        assert loss == TokenCrossEntropy(0.1)(labels, logits)


def test_labels_equal_to_padding_id_are_ignored():
    labels, logits = random_batch()
    labels[0] = 7
    expected = reference(labels[labels != 7], logits[labels != 7], 0.0).mean()
    np.testing.assert_allclose(TokenCrossEntropy(padding_id=7)(labels, logits), expected, rtol=1e-6)


def test_sample_weights_enter_the_normalizer():
    labels, logits = random_batch()
    labels = np.maximum(labels, 1)
    loss = TokenCrossEntropy(0.1)
    plain = loss(labels, logits)
    np.testing.assert_allclose(loss(labels, logits, np.ones(4)), plain, rtol=1e-6)
    np.testing.assert_allclose(loss(labels, logits, np.full((4, 6), 5)), plain, rtol=1e-6)

    without_row_1 = loss(labels[[0, 2, 3]], logits[[0, 2, 3]])
    np.testing.assert_allclose(loss(labels, logits, [1, 0, 1, 1]), without_row_1, rtol=1e-6)
    row_1_twice = loss(labels[[0, 1, 1, 2, 3]], logits[[0, 1, 1, 2, 3]])
    np.testing.assert_allclose(loss(labels, logits, [[1], [2], [1], [1]]), row_1_twice, rtol=1e-6)

    is_kept = np.arange(24).reshape(4, 6) % 3 == 0
    kept_only = loss(labels[is_kept], logits[is_kept])
    np.testing.assert_allclose(loss(labels, logits, is_kept), kept_only, rtol=1e-6)
    assert float(loss(labels, logits, np.zeros(4))) == 0.0


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((4, 5)), np.ones((4, 6, 1)), 1.0])
def test_sample_weights_of_wrong_shape_raise_value_error(weights):
    labels, logits = random_batch()
    with pytest.raises(
        ValueError, match=r"one weight for each row or each token; got shape .*4, 6"
    ):
        TokenCrossEntropy()(labels, logits, weights)


@pytest.mark.parametrize(
    ("labels", "logits", "message"),
    [
        (np.ones((2, 3), int), np.ones((2, 4, 5)), r"labels of shape \(2, 3\).*\(2, 4, 5\)"),
        (np.ones((2, 6), int), np.ones((3, 4, 5)), r"labels of shape \(2, 6\).*\(3, 4, 5\)"),
        (np.ones((2, 3), int), np.ones((6, 5)), r"labels of shape \(2, 3\).*\(6, 5\)"),
        (
            np.ones((2, 3, 5), int),
            np.ones((2, 3, 5)),
            r"`labels` must have shape \[N\] or \[B, T\]",
        ),
        (np.ones(5, int), np.ones(5), r"`logits` must have shape \[N, V\] or \[B, T, V\]; got"),
    ],
)
def test_mismatched_labels_and_logits_raise_value_error(labels, logits, message):
    with pytest.raises(ValueError, match=message):
        TokenCrossEntropy()(labels, logits)


@pytest.mark.parametrize("label", [-1, VOCABULARY])
def test_label_outside_of_the_vocabulary_raises_or_gives_nan(label):
    _, logits = random_batch((1,))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not in \[0, 11\)"):
        token_cross_entropy([label], logits)
    compiled = tf.function(token_cross_entropy, jit_compile=True)
    assert np.isnan(compiled(tf.constant([label]), logits))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_smoothing": 1.0}, r"`label_smoothing` must be a number in \[0, 1\).*got 1.0"),
        ({"label_smoothing": -0.1}, r"`label_smoothing`.*got -0.1"),
        ({"label_smoothing": float("nan")}, r"`label_smoothing`.*got nan"),
        ({"padding_id": -1}, r"`padding_id`.*at least 0; got -1"),
        ({"padding_id": 0.5}, r"`padding_id`.*got 0.5"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenCrossEntropy(**arguments)


def small_model(mask_zero=False):
    """Returns a model that sees one token at a time, with the same weights on every call."""
    tokens = keras.Input([None], dtype="int32")
    embedding = keras.layers.Embedding(
        VOCABULARY,
        8,
        mask_zero=mask_zero,
        embeddings_initializer=keras.initializers.RandomNormal(seed=1),
    )
    output = keras.layers.Dense(VOCABULARY, kernel_initializer=keras.initializers.HeNormal(seed=2))
    return keras.Model(tokens, output(embedding(tokens)))


def uneven_data(rows=16, length=9):
    """Returns inputs and labels in which groups of four rows are alternately long and short."""
    random = np.random.default_rng(5)
    inputs = random.integers(1, VOCABULARY, (rows, length))
    labels = inputs % (VOCABULARY - 1) + 1
    for row in range(rows):
        labels[row, (1 if row // 4 % 2 else length) :] = 0
    return inputs.astype("int32"), labels.astype("int32")


def train(model, steps=6, **compile_arguments):
    inputs, labels = uneven_data()
    optimizer = keras.optimizers.SGD(0.5)
    metrics = [TokenAccuracy(), Perplexity()]
    model.compile(optimizer, TokenCrossEntropy(0.1), metrics=metrics, **compile_arguments)
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(8)
    history = model.fit(data, epochs=steps // 2, shuffle=False, verbose=0).history
    return [weights.tolist() for weights in model.get_weights()], history


def test_implicit_mask_of_the_predictions_is_ignored():
    model = small_model(mask_zero=True)
    inputs, labels = uneven_data()
    inputs[:, 0] = 0  # masked by Keras, although the label is a token
    model.compile("sgd", TokenCrossEntropy())
    logits = model.predict(inputs, verbose=0)
    expected = reference(labels[labels != 0], logits[labels != 0], 0.0).mean()
    loss = model.evaluate(inputs, labels, batch_size=len(inputs), verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_fit_with_xla_gives_the_same_weights():
    weights, history = train(small_model(), jit_compile=False)
    compiled_weights, _ = train(small_model(), jit_compile=True)
    assert history["loss"][-1] < history["loss"][0]
    for one, other in zip(weights, compiled_weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_fit_in_mixed_precision_is_close_to_float32():
    _, history = train(small_model())
    keras.config.set_dtype_policy("mixed_float16")
    try:
        _, mixed_history = train(small_model())
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(mixed_history["loss"], history["loss"], rtol=1e-2)
    np.testing.assert_allclose(mixed_history["perplexity"], history["perplexity"], rtol=1e-2)


def test_fit_of_a_classifier_accepts_flat_labels():
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(4)])
    model.compile("sgd", TokenCrossEntropy(), metrics=[TokenAccuracy()])
    model.fit(np.ones((6, 3)), np.array([1, 2, 3, 1, 0, 2]), verbose=0)
    assert np.isfinite(model.get_weights()[0]).all()


def test_saved_model_has_the_loss_with_its_arguments(tmp_path):
    model = small_model()
    model.compile("sgd", TokenCrossEntropy(0.2, padding_id=3, name="cost"))
    model.save(tmp_path / "model.keras")
    loss = keras.saving.load_model(tmp_path / "model.keras").loss
    assert isinstance(loss, TokenCrossEntropy)
    assert (loss.label_smoothing, loss.padding_id, loss.name) == (0.2, 3, "cost")


def loss_and_gradient(logits, labels):
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = TokenCrossEntropy(0.1)(labels, logits)
    return loss, tape.gradient(loss, logits)


def print_results_of_two_replicas():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    labels, logits = random_batch((8, 9))
    labels[:4, 1:] = 0

    def half(context, array):
        start = 4 * context.replica_id_in_sync_group
        return tf.constant(array[start : start + 4])

    inputs = [
        strategy.experimental_distribute_values_from_function(lambda c, a=array: half(c, a))
        for array in (logits, labels)
    ]
    shares, gradients = strategy.run(tf.function(loss_and_gradient), inputs)
    with strategy.scope():
        loss_in_scope = TokenCrossEntropy(0.1)(labels, logits)
        weights, history = train(small_model())
    results = {
        "replicas": strategy.num_replicas_in_sync,
        "shares": [float(share) for share in strategy.experimental_local_results(shares)],
        "gradients": [g.numpy().tolist() for g in strategy.experimental_local_results(gradients)],
        "loss_in_scope": float(loss_in_scope),
        "weights": weights,
        "history": history,
    }
    print(json.dumps(results))


@pytest.fixture(scope="module")
def two_replicas():
    root = Path(keras_transformer.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, __file__]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_two_replicas_sum_to_the_loss_and_gradient_of_one_device(two_replicas):
    labels, logits = random_batch((8, 9))
    labels[:4, 1:] = 0
    loss, gradient = loss_and_gradient(tf.constant(logits), labels)
    assert two_replicas["replicas"] == 2
    np.testing.assert_allclose(sum(two_replicas["shares"]), loss, rtol=1e-6)
    np.testing.assert_allclose(np.concatenate(two_replicas["gradients"]), gradient, atol=1e-7)
    np.testing.assert_allclose(two_replicas["loss_in_scope"], loss, rtol=1e-6)


def test_fit_on_two_replicas_gives_the_weights_of_one_device(two_replicas):
    weights, history = train(small_model())
    for one, two in zip(weights, two_replicas["weights"], strict=True):
        np.testing.assert_allclose(two, one, atol=1e-6)
    for name in ("loss", "token_accuracy", "perplexity"):
        np.testing.assert_allclose(two_replicas["history"][name], history[name], rtol=1e-5)


def test_mismatched_shapes_unknown_in_a_graph_raise_at_run_time():
    """Flattened, both have six rows."""
    ids = tf.TensorSpec([None, None], tf.int32)
    loss = tf.function(TokenCrossEntropy(), input_signature=[ids, tf.TensorSpec([None, None, 7])])
    assert np.isfinite(loss(tf.ones([2, 3], tf.int32), tf.zeros([2, 3, 7])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one row of V scores for each label"):
        loss(tf.ones([3, 2], tf.int32), tf.zeros([2, 3, 7]))


if __name__ == "__main__":
    print_results_of_two_replicas()
