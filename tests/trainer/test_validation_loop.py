"""Metrics of a whole corpus, compared with their definitions."""

import keras
import numpy as np
import pytest

from keras_transformer import TokenCrossEntropy
from keras_transformer.trainer import ValidationLoop
from tests.trainer.given_batches import GivenBatches, joined, make_batch, make_model

BATCHES = [make_batch(1, 5, 2, 1), make_batch(9, 0, 0, width=4), make_batch(2, 3, 3, 3, 1)]


@pytest.fixture(scope="module")
def model():
    return make_model(keras.optimizers.SGD(0.1), TokenCrossEntropy(0.1), dropout=0.9)


@pytest.fixture(scope="module")
def loop(model):
    return ValidationLoop(model, GivenBatches(BATCHES))


def expected_logs(model, batches):
    inputs, labels = joined(batches)
    logits = model(inputs, training=False)
    is_token = labels != 0
    return {
        "loss": float(TokenCrossEntropy(0.1)(labels, logits)),
        "accuracy": float((np.argmax(logits, axis=-1) == labels)[is_token].mean()),
        "perplexity": float(np.exp(TokenCrossEntropy()(labels, logits))),
    }


def test_every_token_has_equal_weight_and_dropout_is_off(model, loop):
    before = [variable.numpy() for variable in model.variables]
    measured = loop.measure()
    assert measured == pytest.approx(expected_logs(model, BATCHES), rel=1e-5)
    assert loop.measure() == measured
    for now, then in zip(model.variables, before, strict=True):  # dropout seeds too
        np.testing.assert_array_equal(now.numpy(), then)
    assert loop._sum_batches.experimental_get_tracing_count() == 1


def test_loss_equals_that_of_keras_evaluate(model):
    measured = ValidationLoop(model, GivenBatches([BATCHES[2]])).measure()
    assert measured["loss"] == pytest.approx(model.evaluate(*BATCHES[2], verbose=0), rel=1e-5)


@pytest.mark.parametrize(("max_batches", "count"), [(1, 1), (2, 2), (7, 3), (None, 3)])
def test_max_batches_measures_the_first_batches_only(model, loop, max_batches, count):
    measured = loop.measure(max_batches)
    assert measured == pytest.approx(expected_logs(model, BATCHES[:count]), rel=1e-5)


def test_corpus_without_tokens_has_finite_metrics(model):
    measured = ValidationLoop(model, GivenBatches([BATCHES[1]])).measure()
    assert measured == {"loss": 0.0, "accuracy": 0.0, "perplexity": 1.0}
