"""Special ids other than 0 to 3 travel from tokenizer and model to search and export."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel, TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TextLimits, TrainedModel, export_model, verify_export
from keras_transformer.export.modules import make_text_module
from keras_transformer.inference import load
from keras_transformer.text import ByteTokenizer, SpecialIds

IDS = SpecialIds(padding=5, unknown=7, start=6, end=259)
CONFIG = {"padding_id": 5, "unknown_id": 7, "start_id": 6, "end_id": 259}
SIZES = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "max_length": 24}
LAYERS = {
    Transformer: {"num_encoder_layers": 1, "num_decoder_layers": 1},
    LanguageModel: {"num_layers": 1},
    TextEncoder: {"num_layers": 1, "num_classes": 3},
}
SEARCH = SearchSettings(beams=2, max_length=6)
TEXTS = ["two red dogs", "", "x", "Grüße!", "z" * 60]


def make_pair(kind):
    """Returns a model with the default ids and one with others that is equal apart from them."""
    default, other = ByteTokenizer(), ByteTokenizer(special_ids=IDS)
    models = [
        kind.from_size("tiny", vocabulary_size=260, **SIZES, **LAYERS[kind], **config)
        for config in ({}, CONFIG)
    ]
    random = np.random.default_rng(4)
    places = [other.vocabulary().index(token) for token in default.vocabulary()]
    for first, second in zip(*(model.weights for model in models), strict=True):
        value = first.numpy() + random.normal(0, 0.3, first.shape)
        first.assign(value)
        if 260 in value.shape:
            axis = value.shape.index(260)
            permuted = np.empty_like(value)
            np.moveaxis(permuted, axis, 0)[places] = np.moveaxis(value, axis, 0)
            value = permuted
        second.assign(value)
    return [
        TrainedModel(model, tokenizer, examples=["a b"])
        for model, tokenizer in zip(models, (default, other), strict=True)
    ]


def answers(functions):
    """Returns the answers of all signatures but `sample`, whose draws depend on the ids."""
    found = {}
    for name, function in functions.items():
        inputs = {key: tf.constant(TEXTS) for key in function.record.inputs if key != "seed"}
        if name != "sample":
            found[name] = {key: value.numpy() for key, value in function(**inputs).items()}
    return found


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_module_with_other_ids_gives_the_same_answers(kind, xla):
    if kind is TextEncoder:
        settings = {"limits": TextLimits(tokens=20)}
        if xla:
            pytest.skip("an encoder does not search")
    else:
        settings = {"limits": TextLimits(tokens=12), "search": SEARCH, "xla": xla}
    first, second = (
        answers(make_text_module(trained, **settings).functions) for trained in make_pair(kind)
    )
    for name, outputs in first.items():
        for key, value in outputs.items():
            if value.dtype == object:
                assert value.tolist() == second[name][key].tolist(), (name, key)
            else:
                np.testing.assert_allclose(second[name][key], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_export_with_other_ids_verifies_and_answers_as_in_memory(kind, tmp_path):
    _, trained = make_pair(kind)
    trained.save(tmp_path / "run")
    settings = {} if kind is TextEncoder else {"search": SEARCH}
    path = export_model(tmp_path / "run", tmp_path / "models" / "other", portable=True, **settings)
    assert all(row.ok for row in verify_export(path).golden)
    assert verify_export(path).manifest["model"]["padding_id"] == 5
    export = load(path)
    run = load(tmp_path / "run")
    if kind is TextEncoder:
        np.testing.assert_allclose(export.embed(TEXTS), run.embed(TEXTS), atol=1e-4)
    else:
        texts = run.generate(TEXTS, beams=2, max_length=6)
        assert export.generate(TEXTS) == texts
        assert run.trained.tokenizers.special_ids == IDS


def test_trained_model_with_unequal_ids_names_both():
    model = Transformer.from_size("tiny", vocabulary_size=260, **SIZES, **LAYERS[Transformer])
    with pytest.raises(UserError, match=r"padding=0.*padding=5"):
        TrainedModel(model, ByteTokenizer(special_ids=IDS))
