"""Tests of token accuracy and perplexity against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.losses.cross_entropy import TokenCrossEntropy
from keras_transformer.metrics import Perplexity, TokenAccuracy, TokenMean

VOCABULARY = 7


def random_tokens(count, seed=0):
    """Returns labels (never 0) and logits that favor the label, as those of a trained model."""
    random = np.random.default_rng(seed)
    labels = random.integers(1, VOCABULARY, count)
    logits = random.normal(size=(count, VOCABULARY)) + 2 * np.eye(VOCABULARY)[labels]
    return labels, logits.astype("float32")


def accuracy_of(labels, logits, weights=None):
    return np.average(logits.argmax(axis=-1) == labels, weights=weights)


def perplexity_of(labels, logits, weights=None):
    likelihoods = np.exp(logits.astype("float64"))
    likelihoods /= likelihoods.sum(axis=-1, keepdims=True)
    label_likelihoods = np.take_along_axis(likelihoods, labels[..., None], axis=-1)[..., 0]
    return np.exp(-np.average(np.log(label_likelihoods), weights=weights))


BOTH = pytest.mark.parametrize(
    ("metric_class", "expected_of"), [(TokenAccuracy, accuracy_of), (Perplexity, perplexity_of)]
)


@BOTH
@settings(max_examples=15)
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    batch_sizes=st.lists(st.integers(1, 3), min_size=8, max_size=8),
    extra_columns=st.integers(0, 3),
    seed=st.integers(0, 999),
)
def test_result_does_not_depend_on_batches_or_padding(
    metric_class, expected_of, lengths, batch_sizes, extra_columns, seed
):
    labels, logits = random_tokens(sum(lengths), seed)
    ends = np.cumsum(lengths)
    metric = metric_class()
    row = 0
    for size in batch_sizes:
        rows = range(row, min(row + size, len(lengths)))
        row += size
        columns = max((lengths[r] for r in rows), default=0) + extra_columns
        padded_labels = np.zeros((len(rows), columns), "int32")
        padded_logits = np.random.default_rng(seed).normal(size=(len(rows), columns, VOCABULARY))
        for position, r in enumerate(rows):
            tokens = slice(ends[r] - lengths[r], ends[r])
            padded_labels[position, : lengths[r]] = labels[tokens]
            padded_logits[position, : lengths[r]] = logits[tokens]
        metric.update_state(padded_labels, padded_logits.astype("float32"))
    if labels.size:
        np.testing.assert_allclose(metric.result(), expected_of(labels, logits), rtol=1e-5)


@BOTH
def test_sample_weights_equal_a_weighted_mean(metric_class, expected_of):
    labels, logits = random_tokens(12)
    labels, logits = labels.reshape(3, 4), logits.reshape(3, 4, VOCABULARY)
    for weights in (np.array([0.0, 3.0, 0.5]), np.arange(12.0).reshape(3, 4)):
        metric = metric_class()
        metric.update_state(labels, logits, sample_weight=weights)
        token_weights = np.broadcast_to(weights.reshape(3, -1), (3, 4))
        expected = expected_of(labels, logits, token_weights)
        np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)


@BOTH
def test_labels_equal_to_padding_id_are_ignored(metric_class, expected_of):
    labels, logits = random_tokens(50)
    metric = metric_class(padding_id=3)
    metric.update_state(labels, logits)
    expected = expected_of(labels[labels != 3], logits[labels != 3])
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)


@pytest.mark.parametrize(("metric", "nothing"), [(TokenAccuracy(), 0.0), (Perplexity(), 1.0)])
def test_result_without_tokens_is_finite(metric, nothing):
    assert float(metric.result()) == nothing
    metric.update_state(np.zeros((2, 3), "int32"), np.ones((2, 3, VOCABULARY), "float32"))
    assert float(metric.result()) == nothing
    metric.update_state(*random_tokens(5))
    assert float(metric.result()) != nothing
    metric.reset_state()
    assert float(metric.result()) == nothing


def test_more_than_2_to_the_24_tokens_are_counted_exactly():
    metric = TokenAccuracy()
    correct, wrong = np.eye(2, dtype="float32")[[1]], np.eye(2, dtype="float32")[[0]]
    metric.update_state([1], correct, sample_weight=[2.0**24])
    for _ in range(3):
        metric.update_state([1], wrong)
    assert float(metric.mean()) == 2.0**24 / (2.0**24 + 3)


def test_equal_logits_are_not_counted_as_correct():
    metric = TokenAccuracy()
    metric.update_state([1, 2, 3], np.zeros((3, VOCABULARY), "float32"))
    assert float(metric.result()) == 0.0


def test_perplexity_of_a_huge_loss_is_infinite():
    metric = Perplexity()
    metric.update_state([1], np.array([[1e4, -1e4]], "float32"))
    assert float(metric.result()) == np.inf


@BOTH
def test_mismatched_shapes_raise_value_error(metric_class, expected_of):
    with pytest.raises(ValueError, match=r"labels of shape \(2, 3\).*logits of shape \(2, 4, 5\)"):
        metric_class().update_state(np.ones((2, 3), "int32"), np.ones((2, 4, 5), "float32"))


def test_negative_padding_id_raises_value_error():
    with pytest.raises(ValueError, match=r"`padding_id`.*at least 0; got -1"):
        TokenAccuracy(padding_id=-1)


def test_metric_without_total_of_raises_not_implemented():
    with pytest.raises(NotImplementedError, match="TokenMean must implement `total_of`"):
        TokenMean().update_state([1], [[0.0, 1.0]])


@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [("float32", False), ("float32", True), ("mixed_float16", True), ("mixed_bfloat16", False)],
)
def test_evaluate_equals_metrics_of_the_predictions(policy, jit_compile):
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.Sequential(
            [
                keras.Input([None], dtype="int32"),
                keras.layers.Embedding(
                    VOCABULARY, VOCABULARY, keras.initializers.Orthogonal(seed=3)
                ),
                keras.layers.Dense(VOCABULARY, kernel_initializer="identity"),
            ]
        )
    finally:
        keras.config.set_dtype_policy(previous)
    model.compile(
        metrics=[TokenAccuracy(), Perplexity()],
        weighted_metrics=[Perplexity(name="weighted_perplexity")],
        loss=TokenCrossEntropy(),
        jit_compile=jit_compile,
    )
    labels = np.random.default_rng(2).integers(1, VOCABULARY, (10, 4))
    labels[:7, 1:] = 0
    weights = np.linspace(0, 1, 10)
    inputs = np.maximum(labels, 1)
    # Ten rows in batches of four: the last batch is smaller, and tokens are spread unevenly.
    data = tf.data.Dataset.from_tensor_slices((inputs, labels, weights)).batch(4)
    results = model.evaluate(data, return_dict=True, verbose=0)
    logits = model.predict(inputs, verbose=0).astype("float32")
    is_token = labels != 0
    token_weights = np.broadcast_to(weights[:, None], labels.shape)[is_token]
    tokens = labels[is_token], logits[is_token]
    np.testing.assert_allclose(results["token_accuracy"], accuracy_of(*tokens), rtol=1e-5)
    # XLA keeps half-precision sums in float32 where `predict` rounds them.
    tolerance = 1e-5 if policy == "float32" else 2e-2
    np.testing.assert_allclose(results["perplexity"], perplexity_of(*tokens), rtol=tolerance)
    weighted = perplexity_of(*tokens, token_weights)
    np.testing.assert_allclose(results["weighted_perplexity"], weighted, rtol=tolerance)


@BOTH
def test_config_round_trip(metric_class, expected_of):
    metric = metric_class(padding_id=5, name="quality")
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(copy) is metric_class
    assert (copy.padding_id, copy.name) == (5, "quality")
