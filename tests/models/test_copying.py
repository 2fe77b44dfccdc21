"""Models that copy from the source, and the loss for attending to a position again."""

import keras
import numpy as np
import pytest

from keras_transformer import TokenCrossEntropy
from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits
from keras_transformer.models import ConvolutionalSeq2Seq, RecurrentSeq2Seq, Transformer
from keras_transformer.text import SpecialIds

SIZES = {
    "vocabulary_size": 1000,
    "hidden_dim": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "dropout": 0.1,
    "max_length": 16,
}
OWN_SIZES = {
    Transformer: {
        "intermediate_dim": 64,
        "num_heads": 1,
        "positions": "learned",
        "normalize_first": True,
    },
    RecurrentSeq2Seq: {},
    ConvolutionalSeq2Seq: {},
}
LENGTH = 4
# Large enough that the model learns to copy before it learns each token.
SEEN, UNSEEN = (5, 700), (700, 1000)


def pairs(count, seed, with_unseen=False):
    """Sources that end with END, one of their tokens unseen if wanted; the targets are the same."""
    random = np.random.default_rng(seed)
    source = random.integers(*SEEN, (count, LENGTH + 1))
    source[:, -1] = SpecialIds().end
    if with_unseen:
        places = random.integers(0, LENGTH, count)
        source[np.arange(count), places] = random.integers(*UNSEEN, count)
    start = np.full((count, 1), SpecialIds().start)
    return {"source": source, "target": np.concatenate([start, source[:, :-1]], axis=1)}, source


def made(model_class, **settings):
    sizes = {**SIZES, **OWN_SIZES[model_class]}
    return model_class(**{**sizes, **settings})


def trained(model_class, **settings):
    keras.utils.set_random_seed(1)
    model = made(model_class, **settings)
    model.compile(keras.optimizers.Adam(1e-2), TokenCrossEntropy())
    inputs, labels = pairs(64 * 150, seed=1)
    model.fit(inputs, labels, batch_size=64, epochs=1, verbose=0)
    return model


@pytest.fixture(
    scope="module",
    params=[
        (Transformer, {}),
        (RecurrentSeq2Seq, {"attention": "additive", "coverage_attention": True}),
        (ConvolutionalSeq2Seq, {}),
    ],
    ids=lambda param: param[0].__name__,
)
def copying(request):
    model_class, settings = request.param
    return trained(model_class, copies=True, coverage_weight=0.1, **settings)


def share_right(model, search):
    inputs, labels = pairs(100, seed=2, with_unseen=True)
    found = search.function(model)(inputs["source"])
    ids = np.zeros_like(labels)
    ids[:, : found.ids.shape[2]] = found.ids[:, 0, : LENGTH + 1]
    return np.mean(np.all(ids == labels, axis=1))


LIMITS = LengthLimits(maximum=LENGTH + 1, maximum_ratio=None)


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(lengths=LIMITS),
        pytest.param(BeamSearch(beams=3, lengths=LIMITS), marks=pytest.mark.slow),
    ],
)
def test_model_that_copies_writes_tokens_that_no_target_had(search, copying):
    assert share_right(copying, search) > 0.8


def test_model_that_does_not_copy_never_writes_them():
    assert share_right(trained(ConvolutionalSeq2Seq), GreedySearch(lengths=LIMITS)) < 0.1


@pytest.mark.parametrize("model_class", OWN_SIZES)
def test_coverage_weight_adds_a_loss_in_training_only(model_class):
    model = made(model_class, coverage_weight=2.0)
    inputs, _ = pairs(8, seed=3)
    model(inputs, training=True)
    (loss,) = model.losses
    assert float(loss) > 0
    model(inputs, training=False)
    assert model.losses == []


@pytest.mark.parametrize("model_class", OWN_SIZES)
def test_copying_without_a_shared_table_is_an_error(model_class):
    with pytest.raises(ValueError, match=r"`share_embeddings`.*`copies`.* share_embeddings='all'"):
        made(model_class, copies=True, share_embeddings="target")
