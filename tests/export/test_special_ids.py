"""Special ids other than 0 to 3, from tokenizer and model to search and export."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel, TextEncoder, Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TextLimits, TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.text import ByteTokenizer, SpecialIds
from tests.export.modules.helpers import assert_same, reloaded

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


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_module_with_other_ids_gives_the_same_answers(kind):
    """Also when XLA compiles its search, which pads the texts further."""
    settings, names = {"limits": TextLimits(tokens=12)}, ("encode", "classify")
    if kind is not TextEncoder:
        settings["search"], names = SEARCH, ("n_best", "score", "attention", "encode")
    default, other = make_pair(kind)
    functions = make_text_module(default, **settings).functions
    others = make_text_module(other, **settings).functions
    for name in names:
        inputs = {key: tf.constant(TEXTS) for key in functions[name].record.inputs}
        assert_same(others[name](**inputs), functions[name](**inputs))
    if kind is Transformer:
        compiled = make_text_module(other, xla=True, **settings).functions["n_best"]
        texts = tf.constant(TEXTS)
        assert_same(compiled(text=texts), functions["n_best"](text=texts))


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_run_restores_other_ids(kind, tmp_path):
    _, trained = make_pair(kind)
    trained.save(tmp_path)
    restored = TrainedModel.load(tmp_path)
    assert restored.model.special_ids == restored.tokenizers.special_ids == IDS


def test_saved_module_with_other_ids_answers_as_in_memory(tmp_path):
    _, trained = make_pair(Transformer)
    module = make_text_module(trained, SEARCH, stored_dtype="float32")
    saved = reloaded(module, tmp_path, "serving_default", "score")
    texts = tf.constant(TEXTS)
    for name, inputs in {"serving_default": ("text",), "score": ("source", "target")}.items():
        tensors = dict.fromkeys(inputs, texts)
        assert_same(saved.signatures[name](**tensors), module.functions[name](**tensors))


def test_trained_model_with_unequal_ids_names_both():
    model = Transformer.from_size("tiny", vocabulary_size=260, **SIZES, **LAYERS[Transformer])
    with pytest.raises(UserError, match=r"padding=0.*padding=5"):
        TrainedModel(model, ByteTokenizer(special_ids=IDS))
