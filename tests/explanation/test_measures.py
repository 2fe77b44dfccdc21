"""Gradients and erasure on a small model, against what can be measured from outside."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.analysis.explain import explanation as sentence_pair
from keras_transformer.analysis.explain.attributions import (
    erasure,
    gradient_times_input,
    replaced_method,
)
from keras_transformer.analysis.explain.explanation import in_full_precision
from tests.explanation.small_pair import LABELS, SOURCE, TARGET, make_pair


@pytest.fixture(scope="module")
def pair():
    return make_pair()


def test_gradient_times_input_is_the_slope_along_an_embedding():
    """Of the log-probability, as one source token's embedding is made longer and shorter.

    Source and target share their table, of which only the source's use counts.
    """
    pair = make_pair(dtype="float64", num_encoder_layers=1, num_decoder_layers=1)
    measured = np.empty((len(LABELS), len(SOURCE)))
    for place in range(len(SOURCE)):
        above, below = (log_probabilities_with(pair, place, 1 + step) for step in (1e-4, -1e-4))
        measured[:, place] = (above - below) / 2e-4
    products = gradient_times_input(pair)
    assert np.abs(measured).max() > 0.05
    np.testing.assert_allclose(products, measured, rtol=1e-5, atol=1e-7)


def log_probabilities_with(pair, place, factor):
    """Of the labels, when the embedding at a place of the source is `factor` times itself."""
    factors = np.ones((1, len(SOURCE), 1))
    factors[0, place] = factor

    def longer(call):
        return lambda inputs: call(inputs) * factors

    model = pair.model
    with replaced_method(model.encoder.embedding, "call", longer):
        memory = model.encode(tf.constant(SOURCE[None]))
    logits, _ = model.step(TARGET[None], model.initial_state(memory, max_length=len(TARGET)))
    return pair.chosen(tf.nn.log_softmax(logits).numpy())[0]


def test_erasure_is_what_is_lost_with_a_token(pair):
    lost = erasure(pair)
    assert lost.shape == (4, 5)
    whole = pair.model({"source": SOURCE[None], "target": TARGET[None]})
    without = pair.model({"source": np.array([[5, 9, 0, 5, 3]]), "target": TARGET[None]})
    chosen = [pair.chosen(tf.nn.log_softmax(logits).numpy())[0] for logits in (whole, without)]
    np.testing.assert_allclose(lost[:, 2], chosen[0] - chosen[1], atol=1e-5)
    assert np.abs(lost).min() > 0


def test_in_portions_it_is_the_same(pair, monkeypatch):
    whole = gradient_times_input(pair), erasure(pair)
    monkeypatch.setattr(sentence_pair, "LOGITS_AT_ONCE", 3 * 4 * 20)
    assert [part.stop - part.start for part in pair.portions(5)] == [3, 2]
    np.testing.assert_allclose(gradient_times_input(pair), whole[0], atol=1e-5)
    np.testing.assert_allclose(erasure(pair), whole[1], atol=1e-5)


def test_a_model_in_half_precision_is_explained_in_full():
    model = make_pair(dtype="mixed_float16", num_encoder_layers=1, num_decoder_layers=1).model
    twin = in_full_precision(model)
    assert twin.dtype_policy.compute_dtype == "float32"
    for own, copied in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_array_equal(own, copied)
    assert in_full_precision(twin) is twin
