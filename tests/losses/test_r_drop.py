"""Tests of R-Drop: the divergence against the paper's formula, and training with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.losses.cross_entropy import token_totals
from keras_transformer.losses.fused_cross_entropy import symmetric_kl_divergence
from keras_transformer.trainer import TrainingLoop
from tests.trainer.given_batches import GivenBatches, make_batch, make_model

GENERATOR = np.random.default_rng(3)


def kullback_leibler(p, q):
    return np.sum(p * np.log(p / q), axis=-1)


def softmax(logits):
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(6, 9), (4, 3, 9)])
def test_symmetric_kl_divergence_and_gradient_equal_the_formula(shape):
    logits = GENERATOR.normal(size=shape)
    first, second = np.split(softmax(logits), 2)
    expected = 0.5 * (kullback_leibler(first, second) + kullback_leibler(second, first))
    with tf.GradientTape() as tape:
        variable = tf.Variable(logits)
        divergence, by_logits = symmetric_kl_divergence(tf.nn.log_softmax(variable))
        total = tf.reduce_sum(divergence)
    np.testing.assert_allclose(divergence, expected, rtol=1e-10)
    np.testing.assert_allclose(by_logits, tape.gradient(total, variable), atol=1e-10)


def test_symmetric_kl_divergence_of_equal_predictions_is_zero():
    logits = tf.nn.log_softmax(GENERATOR.normal(size=(3, 7)))
    divergence, by_logits = symmetric_kl_divergence(tf.concat([logits, logits], axis=0))
    np.testing.assert_allclose(divergence, 0.0, atol=1e-12)
    np.testing.assert_allclose(by_logits, 0.0, atol=1e-12)


def test_token_totals_adds_alpha_times_the_divergence_to_the_loss():
    logits = GENERATOR.normal(size=(4, 3, 9)).astype("float32")
    labels = np.tile(GENERATOR.integers(1, 9, (2, 3)), (2, 1))
    labels[[0, 2], 1] = 0  # padding does not count
    divergence, _ = symmetric_kl_divergence(tf.nn.log_softmax(logits))
    alone, together = (token_totals(labels, logits, 0.1, consistency=a) for a in (0.0, 5.0))
    of_tokens = np.sum(divergence * (labels[:2] != 0))
    np.testing.assert_allclose(together.loss - alone.loss, 5 * of_tokens, rtol=1e-5)
    for name in ("cross_entropy", "correct", "tokens"):
        assert getattr(together, name) == getattr(alone, name)


BATCHES = [make_batch(1, 5, 2, 1), make_batch(2, 3, 3, 3, 1)]


def test_training_step_without_dropout_equals_step_without_r_drop():
    """Both predictions are equal, and the statistics count each token once."""
    found = []
    for consistency in (0.0, 5.0):
        keras.utils.set_random_seed(1)
        model = make_model(keras.optimizers.SGD(0.1))
        record = TrainingLoop(model, GivenBatches(BATCHES), consistency=consistency).run(1)[0]
        found.append((record, [variable.numpy() for variable in model.trainable_variables]))
    (plain, weights), (consistent, consistent_weights) = found
    assert consistent.statistics.tokens == plain.statistics.tokens
    assert consistent.slots == plain.slots
    np.testing.assert_allclose(consistent.statistics.loss, plain.statistics.loss, rtol=1e-5)
    np.testing.assert_allclose(consistent.gradient_norm, plain.gradient_norm, rtol=1e-4)
    for ours, expected in zip(consistent_weights, weights, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_training_with_r_drop_reduces_the_divergence_under_dropout():
    divergences = {}
    for consistency in (0.0, 20.0):
        keras.utils.set_random_seed(1)
        model = make_model(keras.optimizers.Adam(0.01), dropout=0.3)
        loop = TrainingLoop(model, GivenBatches(BATCHES), consistency=consistency)
        loop.run(60)
        inputs = tf.concat([BATCHES[0][0]] * 40, axis=0)
        divergence, _ = symmetric_kl_divergence(tf.nn.log_softmax(model(inputs, training=True)))
        divergences[consistency] = float(tf.reduce_mean(divergence))
    assert divergences[20.0] < 0.5 * divergences[0.0]


def test_negative_consistency_raises_value_error():
    model = make_model(keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match=r"`consistency`.*at least 0; got -1"):
        TrainingLoop(model, GivenBatches(BATCHES), consistency=-1.0)
