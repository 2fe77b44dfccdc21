"""Recipes that start from an imported or an own model, and frozen weights."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer
from keras_transformer import Transformer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.decoding import SearchSettings
from keras_transformer.export import TrainedModel
from keras_transformer.losses import TokenCrossEntropy
from keras_transformer.trainer import Recipe, train
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.recipe_file import RecipeError
from keras_transformer.trainer.source_model import freeze_weights
from tests.trainer.small_runs import RECIPE, write_corpora


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("corpora"))


def values_of(data, source, **sections):
    """Returns a recipe of two steps from a model, as a dictionary."""
    values = {
        "name": "fine",
        "task": "translation",
        "data": data,
        "model": {"from": str(source), "dropout": 0.0},
        "batches": {"tokens": 256, "max_length": 40, "max_buckets": 1},
        "training": {"steps": 2, "schedule": "constant", "learning_rate": 0.01, "warmup_steps": 0},
        "checkpoints": {"final": "last"},
    }
    for name in ("tensorboard", "export"):
        values[name] = RECIPE[name]
    values["evaluation"] = {"every": 4, "sentences": 0}
    return {
        name: {**section, **sections.get(name, {})} if isinstance(section, dict) else section
        for name, section in {"text": {}, **values}.items()
    }


def test_training_continues_from_imported_weights_and_vocabulary(data, imported, tmp_path):
    freeze = ["embedding", "encoder"]
    values = values_of(data, imported, model={"from": str(imported), "freeze": freeze})
    recipe = Recipe.from_dictionary(values)
    assert Recipe.from_dictionary(recipe.to_dictionary()) == recipe
    train(recipe, tmp_path / "run")
    before, after = TrainedModel.load(imported), TrainedModel.load(tmp_path / "run")
    assert after.tokenizers.source.hash == before.tokenizers.source.hash
    assert after.search_settings() == before.search_settings()
    pairs = zip(before.model.weights, after.model.weights, strict=True)
    changed = {old.path for old, new in pairs if not np.array_equal(old, new)}
    assert changed
    assert not any(path.startswith(("embedding", "encoder")) for path in changed)


def test_untrained_copy_answers_as_the_imported_model(data, imported):
    recipe = Recipe.from_dictionary(values_of(data, imported))
    tokenizers = TrainedModel.load(imported).tokenizers
    model = TrainingParts().make_model(recipe, tokenizers)
    first = TrainedModel.load(imported).model
    for old, new in zip(first.weights, model.weights, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"text": {"vocabulary_size": 8000}}, "text.vocabulary_size"),
        ({"text": {"tokenizer": "bytes"}}, "text.tokenizer"),
        ({"model": {"hidden_dim": 32}}, "model.hidden_dim"),
        ({"model": {"size": "tiny"}}, "model.size"),
        ({"model": {"kind": "recurrent"}}, "model.kind"),
    ],
)
def test_another_vocabulary_or_model_is_refused(data, imported, sections, key):
    with pytest.raises(RecipeError) as raised:
        Recipe.from_dictionary(values_of(data, imported, **sections))
    (mistake,) = raised.value.mistakes
    assert mistake.argument == key


@pytest.mark.parametrize("source", ["nowhere", "opus"])
def test_directory_without_a_run_is_refused(data, opus, source):
    place = opus if source == "opus" else source
    with pytest.raises(RecipeError) as raised:
        Recipe.from_dictionary(values_of(data, place))
    (mistake,) = raised.value.mistakes
    assert mistake.argument == "model.from"
    assert ("keras-transformer import" in str(mistake)) == (source == "opus")


def test_search_of_the_recipe_replaces_that_of_the_model(data, imported):
    values = values_of(data, imported, evaluation={"search": {"beams": 5}})
    search = Recipe.from_dictionary(values).evaluation.search_settings()
    of_source = TrainedModel.load(imported).search_settings(beams=5)
    assert search == SearchSettings(**vars(of_source))


@pytest.fixture
def model():
    sizes = {"hidden_dim": 8, "num_encoder_layers": 2, "num_decoder_layers": 1}
    return Transformer.from_size("tiny", vocabulary_size=20, num_heads=2, dropout=0.0, **sizes)


def test_patterns_freeze_what_they_match(model):
    freeze_weights(model, ["encoder/block_0", "*/self_attention/query/kernel"])
    frozen = {weight.path for weight in model.weights if not weight.trainable}
    assert frozen == {
        weight.path
        for weight in model.weights
        if weight.path.startswith("encoder/block_0/")
        or weight.path.endswith("self_attention/query/kernel")
    }
    assert frozen


@pytest.mark.parametrize("patterns", [["encoder/blok_*"], ["encoder", "nothing"], ["*"]])
def test_pattern_that_matches_nothing_or_everything_is_refused(model, patterns):
    with pytest.raises(ArgumentError) as raised:
        freeze_weights(model, patterns)
    assert raised.value.argument == "freeze"


def test_frozen_encoder_is_not_changed_by_fit(model):
    model.encoder.trainable = False
    model.compile("adam", TokenCrossEntropy(), run_eagerly=True)
    before = [weight.numpy() for weight in model.weights]
    source = tf.constant([[5, 6, 3, 0], [7, 8, 9, 3]])
    target = tf.constant([[2, 5, 6], [2, 7, 8]])
    model.fit({"source": source, "target": target}, tf.constant([[5, 6, 3], [7, 8, 3]]), verbose=0)
    for weight, value in zip(model.weights, before, strict=True):
        is_frozen = weight.path.startswith("encoder/")
        assert np.array_equal(weight, value) == is_frozen, weight.path
    assert (
        not keras_transformer.models.MODELS["Transformer"]
        .from_config(model.get_config())
        .encoder.trainable
    )
