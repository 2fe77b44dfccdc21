"""Sums over tokens, compared with their definitions."""

import functools
import math
import operator

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TokenCrossEntropy
from keras_transformer.losses.cross_entropy import token_totals, token_weights
from keras_transformer.trainer.training_loop import TokenStatistics

LABELS = np.array([[3, 1, 0], [2, 0, 0], [0, 0, 0]], "int32")


def token_sums(loss, labels, logits):
    """Returns the sums as the training loop takes them."""
    return token_totals(labels, logits, loss.label_smoothing, loss.padding_id)


def count_tokens(loss, labels):
    return tf.reduce_sum(token_weights(labels, loss.padding_id))


def test_sums_are_over_the_tokens_that_are_not_padding(random):
    logits = random.normal(size=(3, 3, 5)).astype("float32")
    loss = TokenCrossEntropy(0.2)
    sums = TokenStatistics(*map(float, token_sums(loss, LABELS, logits)))
    assert sums.tokens == count_tokens(loss, LABELS) == 3
    assert sums.loss == pytest.approx(3 * float(loss(LABELS, logits)), rel=1e-6)
    plain = TokenCrossEntropy()(LABELS, logits)
    assert sums.cross_entropy == pytest.approx(3 * float(plain), rel=1e-6)
    assert sums.correct == (np.argmax(logits, axis=-1) == LABELS)[LABELS != 0].sum()


def test_padding_id_is_that_of_the_loss():
    loss = TokenCrossEntropy(padding_id=2)
    assert count_tokens(loss, LABELS) == 8
    assert token_sums(loss, LABELS, tf.zeros([3, 3, 5]))[3] == 8


def test_gradient_is_that_of_the_smoothed_loss(random):
    logits = tf.Variable(random.normal(size=(3, 3, 5)).astype("float32"))
    loss = TokenCrossEntropy(0.2)
    with tf.GradientTape() as tape:
        total = token_sums(loss, LABELS, logits)[0] / count_tokens(loss, LABELS)
    with tf.GradientTape() as expected:
        value = loss(LABELS, logits)
    gradient = expected.gradient(value, logits)
    np.testing.assert_allclose(tape.gradient(total, logits), gradient, atol=1e-7)


def test_statistics_of_batches_add_up_to_those_of_the_corpus(random):
    logits = random.normal(size=(3, 3, 5)).astype("float32")
    loss = TokenCrossEntropy(0.1)

    def statistics(rows):
        return TokenStatistics(*map(float, token_sums(loss, LABELS[rows], logits[rows])))

    parts = [statistics(slice(row, row + 1)) for row in range(3)]
    together = functools.reduce(operator.add, parts, TokenStatistics())
    assert together.logs() == pytest.approx(statistics(slice(None)).logs(), rel=1e-6)


def test_statistics_without_tokens_are_finite():
    assert TokenStatistics().logs() == {"loss": 0.0, "accuracy": 0.0, "perplexity": 1.0}


def test_perplexity_is_finite_for_a_large_loss():
    assert math.isfinite(TokenStatistics(cross_entropy=1e9, tokens=1.0).logs()["perplexity"])
    assert math.isnan(TokenStatistics(cross_entropy=math.nan, tokens=1.0).logs()["perplexity"])
