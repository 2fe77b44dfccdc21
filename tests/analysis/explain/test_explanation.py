"""Explanations of an untrained model, and texts and models that cannot be explained."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.explain import explain
from keras_transformer.export import TrainedModel
from keras_transformer.text import ByteTokenizer
from tests.phrases import SMALL


def make_trained(kind=Transformer, **settings):
    keras.utils.set_random_seed(1)
    return TrainedModel(kind.from_size("tiny", **SMALL, **settings), ByteTokenizer())


@pytest.fixture(scope="module")
def trained():
    return make_trained(num_encoder_layers=2, num_decoder_layers=2)


def test_explanation_has_all_measurements(trained):
    explanation = explain(trained, "né", "ok", draws=3, seed=5)
    assert not explanation.is_own
    assert explanation.source_tokens == ("n", "<0xC3>", "<0xA9>", "<end>")
    assert explanation.target_tokens == ("o", "k", "<end>")
    assert explanation.read_tokens == ("<start>", "o", "k")
    shapes = {kind: weights.shape for kind, weights in explanation.heads.items()}
    assert shapes == {"cross": (2, 2, 3, 4), "encoder": (2, 2, 4, 4), "decoder": (2, 2, 3, 3)}
    assert {values.shape for values in explanation.measures.values()} == {(3, 4)}
    np.testing.assert_allclose(explanation.measures["attention"].sum(axis=1), 1, atol=1e-5)
    assert len(explanation.agreements()) == 6
    assert [(each.kind, each.block) for each in explanation.changes] == [
        (kind, block) for block in (None, 1, 2) for kind in ("shuffled", "uniform")
    ]
    assert explanation.change("shuffled", 2).total_variation.shape == (3, 3)
    assert explanation.change("uniform", 3) is None
    assert explanation.head_agreements("erasure").shape == (2, 2)
    numbers = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    assert numbers["changes"][0]["draws"] == 3
    # Bytes have the ids from 4 on; 2 is the start id and 3 the end id.
    source, labels = [[*(4 + byte for byte in "né".encode()), 3]], [4 + ord("o"), 4 + ord("k"), 3]
    logits = trained.model({"source": np.array(source), "target": np.array([[2, *labels[:2]]])})
    probabilities = tf.nn.softmax(logits)[0].numpy()[range(3), labels]
    np.testing.assert_allclose(explanation.probabilities, probabilities, rtol=1e-4)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (" \u3000", None, "source is blank"),
        ("a" * 16, None, "source .* at most 16 .* 17"),
        ("a", "b" * 20, "target .* at most 16 .* 21"),
        ("a\udcff", None, "source .* character 2"),
        ("a", "\udcff", "target .* character 1"),
    ],
)
def test_unusable_text_is_refused(trained, source, target, message):
    with pytest.raises(UserError, match=message):
        explain(trained, source, target)


def test_model_without_decoder_is_refused():
    with pytest.raises(UserError, match=r"story: .*TextEncoder"):
        explain(make_trained(TextEncoder, num_layers=1), "a", name="story")


def test_draws_and_seed_are_checked(trained):
    with pytest.raises(ValueError, match=r"`draws` .* at least 1; got 0"):
        explain(trained, "a", "b", draws=0)
    with pytest.raises(ValueError, match=r"`seed` .* 2\*\*64; got 18446744073709551616"):
        explain(trained, "a", "b", seed=2**64)
