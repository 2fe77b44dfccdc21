"""Attributions against direct measurements on a small model, and against complete matrices."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.analysis.explain import measurements
from keras_transformer.analysis.explain.measurements import (
    attention_rollout,
    erasure,
    gradient_times_input,
    in_full_precision,
    replaced_method,
)
from tests.analysis.explain.small_pair import LABELS, SOURCE, TARGET, make_pair


@pytest.fixture(scope="module")
def pair():
    return make_pair()


def test_gradient_times_input_equals_the_derivative_by_the_scale_of_an_embedding():
    """Source and target share their embeddings, of which only the source counts."""
    pair = make_pair(dtype="float64", num_encoder_layers=1, num_decoder_layers=1)
    measured = np.empty((len(LABELS), len(SOURCE)))
    for position in range(len(SOURCE)):
        above, below = (log_probabilities_with(pair, position, 1 + step) for step in (1e-4, -1e-4))
        measured[:, position] = (above - below) / 2e-4
    products = gradient_times_input(pair)
    assert np.abs(measured).max() > 0.05
    np.testing.assert_allclose(products, measured, rtol=1e-5, atol=1e-7)


def log_probabilities_with(pair, position, factor):
    """Returns those of the labels if one source embedding is multiplied by `factor`."""
    factors = np.ones((1, len(SOURCE), 1))
    factors[0, position] = factor

    def scaled(call):
        return lambda inputs: call(inputs) * factors

    model = pair.model
    with replaced_method(model.get_layer("embedding"), "call", scaled):
        encoded = model.encode(tf.constant(SOURCE[None]))
    logits, _ = model.step(TARGET[None], model.initial_state(encoded, max_length=len(TARGET)))
    return pair.of_labels(tf.nn.log_softmax(logits).numpy())[0]


def test_erasure_equals_the_loss_of_log_probability_with_padding(pair):
    lost = erasure(pair)
    assert lost.shape == (4, 5)
    whole = pair.model({"source": SOURCE[None], "target": TARGET[None]})
    without = pair.model({"source": np.array([[5, 9, 0, 5, 3]]), "target": TARGET[None]})
    chosen = [pair.of_labels(tf.nn.log_softmax(logits).numpy())[0] for logits in (whole, without)]
    np.testing.assert_allclose(lost[:, 2], chosen[0] - chosen[1], atol=1e-5)
    assert np.abs(lost).min() > 0


def test_attributions_are_the_same_in_several_batches(pair, monkeypatch):
    whole = gradient_times_input(pair), erasure(pair)
    monkeypatch.setattr(measurements, "LOGITS_AT_ONCE", 3 * 4 * 20)
    assert [part.stop - part.start for part in pair.batches(5)] == [3, 2]
    np.testing.assert_allclose(gradient_times_input(pair), whole[0], atol=1e-5)
    np.testing.assert_allclose(erasure(pair), whole[1], atol=1e-5)


def test_model_in_half_precision_is_copied_in_full_precision():
    model = make_pair(dtype="mixed_float16", num_encoder_layers=1, num_decoder_layers=1).model
    copy = in_full_precision(model)
    assert copy.dtype_policy.compute_dtype == "float32"
    for own, copied in zip(model.get_weights(), copy.get_weights(), strict=True):
        np.testing.assert_array_equal(own, copied)
    assert in_full_precision(copy) is copy


def make_weights(generator, *shape, causal=False):
    weights = generator.random(shape)
    if causal:
        weights = np.tril(weights)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_rollout_equals_the_product_over_source_and_target_as_one_sequence(random):
    """Each sublayer of the paper is one matrix of S + T positions."""
    blocks, heads, sources, targets = 2, 3, 4, 3
    encoder = make_weights(random, blocks, heads, sources, sources)
    decoder = make_weights(random, blocks, heads, targets, targets, causal=True)
    cross = make_weights(random, blocks, heads, targets, sources)
    size = sources + targets
    reached = np.eye(size)
    for block in range(blocks):
        sublayer = np.eye(size)
        sublayer[:sources, :sources] = encoder[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
    for block in range(blocks):
        sublayer = np.eye(size)
        sublayer[sources:, sources:] = decoder[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
        sublayer = np.eye(size)
        sublayer[sources:] = 0
        sublayer[sources:, :sources] = cross[block].mean(axis=0)
        reached = (sublayer + np.eye(size)) / 2 @ reached
    np.testing.assert_allclose(reached.sum(axis=1), 1)
    np.testing.assert_allclose(
        attention_rollout(encoder, decoder, cross), reached[sources:, :sources]
    )
