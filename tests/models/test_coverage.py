"""Coverage, as an input of the attention and as a loss, reduces repeated attention."""

import keras
import numpy as np
import pytest

from keras_transformer import TokenCrossEntropy
from keras_transformer.models import RecurrentSeq2Seq
from keras_transformer.text import SpecialIds

LENGTH, SYMBOLS = 6, 20


def pairs(count, seed):
    """Sources of symbols, some of them several times; the targets are the same."""
    source = np.random.default_rng(seed).integers(5, 5 + SYMBOLS, (count, LENGTH + 1))
    source[:, -1] = SpecialIds().end
    start = np.full((count, 1), SpecialIds().start)
    return {"source": source, "target": np.concatenate([start, source[:, :-1]], axis=1)}, source


def trained(**settings):
    keras.utils.set_random_seed(1)
    sizes = {"vocabulary_size": 5 + SYMBOLS, "hidden_dim": 32, "dropout": 0.0}
    model = RecurrentSeq2Seq.from_size("tiny", attention="additive", **sizes, **settings)
    model.compile(keras.optimizers.Adam(1e-2), TokenCrossEntropy())
    inputs, labels = pairs(64 * 150, seed=1)
    model.fit(inputs, labels, batch_size=64, epochs=1, verbose=0)
    inputs, labels = pairs(200, seed=2)
    assert np.mean(np.argmax(model(inputs), axis=-1) == labels) > 0.98
    return model


def repeated_attention(model):
    """Returns the share of attention to positions that had attention before: `Σ min(a, c)`."""
    inputs, _ = pairs(200, seed=2)
    attention = model.alignment(**inputs).numpy()  # [B, T, S]
    before = np.cumsum(attention, axis=1) - attention
    return np.mean(np.sum(np.minimum(attention, before), axis=-1))


@pytest.fixture(scope="module")
def without():
    return repeated_attention(trained())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"coverage_attention": True}, 0.8),
        ({"coverage_attention": True, "coverage_weight": 1.0}, 0.1),
    ],
    ids=["as an input of the attention", "and of the loss"],
)
def test_coverage_makes_attention_repeat_itself_less(settings, share, without):
    """The shares are about 0.20 of the attention without coverage, 0.13 and 0.001 with it."""
    assert repeated_attention(trained(**settings)) < share * without
