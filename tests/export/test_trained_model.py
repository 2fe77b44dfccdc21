"""Trained models on disk: saved, restored, or refused."""

import dataclasses
import json
import pickle
import shutil

import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import GreedySearch, SearchSettings
from keras_transformer.export import TrainedModel
from keras_transformer.export.modules import make_text_module
from keras_transformer.export.run_manifest import RunManifest
from keras_transformer.text import ByteTokenizer, TokenizerPair


def make_trained(**settings):
    model = Transformer.from_size(
        "tiny",
        vocabulary_size=260,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        **settings,
    )
    return TrainedModel(
        model,
        TokenizerPair(ByteTokenizer()),
        recipe={"steps": 3},
        quality={"bleu": 1.5},
        examples=("grün", "blau"),
    )


@pytest.fixture(scope="module")
def written_run(tmp_path_factory):
    """A saved run; tests must not change it."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    make_trained().save(directory)
    return directory


def describe(run, **changes):
    """Changes the description of a saved model, with a manifest that fits it."""
    path = run / "model" / "model.json"
    description = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(description))
    RunManifest.new(path.parent).add_all()


@pytest.fixture
def saved(written_run, tmp_path):
    """A copy of the run that a test may damage."""
    return shutil.copytree(written_run, tmp_path / "run")


@pytest.mark.parametrize("settings", [{}, {"attention": "shaw", "positions": "learned"}])
def test_load_restores_everything_that_was_saved(tmp_path, settings):
    trained = make_trained(**settings)
    trained.save(tmp_path / "run")
    for directory in (tmp_path / "run", tmp_path / "run" / "model"):
        loaded = TrainedModel.load(directory)
        assert loaded.model.config == trained.model.config
        assert (loaded.recipe, loaded.quality) == (trained.recipe, trained.quality)
        assert loaded.examples == trained.examples
        assert loaded.tokenizers.source.hash == trained.tokenizers.source.hash
        for mine, theirs in zip(trained.model.weights, loaded.model.weights, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_search_settings_are_those_of_the_recipe_with_changes(saved):
    """They also apply to its export."""
    trained = TrainedModel.load(saved)
    assert trained.search_settings() == SearchSettings()
    search = {"beams": 1, "max_length": 7, "forbidden_ids": [5]}
    trained = dataclasses.replace(trained, recipe={"evaluation": {"search": search}})
    assert trained.search_settings() == SearchSettings(beams=1, max_length=7, forbidden_ids=(5,))
    assert trained.search_settings(beams=3).beams == 3
    assert trained.search_settings(beams=3).max_length == 7
    module = make_text_module(trained)
    assert isinstance(module.searches["serving_default"], GreedySearch)
    assert module.searches["n_best"].lengths.maximum == 7


def test_save_stores_no_optimizer(written_run, tmp_path):
    trained = make_trained()
    trained.model.compile("adam", "mse")
    optimizer = trained.model.optimizer
    optimizer.build(trained.model.trainable_variables)
    trained.save(tmp_path)
    path = "model/model.weights.h5"
    assert (tmp_path / path).stat().st_size == (written_run / path).stat().st_size
    assert trained.model.optimizer is optimizer


def test_tokenizer_of_another_size_raises_an_error(tmp_path):
    model = Transformer.from_size(
        "tiny", vocabulary_size=300, num_encoder_layers=1, num_decoder_layers=1
    )
    with pytest.raises(UserError, match="embedding has 300 ids, but the 'bytes' tokenizer has 260"):
        TrainedModel(model, TokenizerPair(ByteTokenizer()))


def test_load_with_another_vocabulary_size_raises_an_error(saved):
    describe(saved, config=make_trained().model.get_config() | {"vocabulary_size": 300})
    with pytest.raises(UserError, match="the weights do not fit the model"):
        TrainedModel.load(saved)


def test_save_overwrites_nothing(saved):
    with pytest.raises(UserError, match="exists already"):
        make_trained().save(saved)


@pytest.mark.parametrize("place", [0, 100, -1])
def test_load_detects_a_flipped_bit_in_the_weights(saved, place):
    path = saved / "model" / "model.weights.h5"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model.weights.h5: damaged"):
        TrainedModel.load(saved)


def test_load_without_weights_raises_an_error(saved):
    (saved / "model" / "model.weights.h5").unlink()
    with pytest.raises(UserError, match=r"model.weights.h5: damaged: .*missing"):
        TrainedModel.load(saved)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', "\x00"])
def test_load_with_a_damaged_description_raises_an_error(saved, content):
    (saved / "model" / "model.json").write_text(content)
    with pytest.raises(UserError, match=r"model.json: damaged"):
        TrainedModel.load(saved)


def test_load_of_a_newer_format_names_both_versions(saved):
    describe(saved, format=3, created_with={"keras_transformer": "9.9"})
    with pytest.raises(
        UserError, match=r"transformer 9\.9 wrote this model in format 3; .*reads format 2"
    ):
        TrainedModel.load(saved)


def test_load_of_an_unknown_class_lists_the_known_ones(saved):
    describe(saved, **{"class": "Lambda"})
    with pytest.raises(UserError, match=r"model class 'Lambda'; known are .*Transformer"):
        TrainedModel.load(saved)


def test_load_with_an_unknown_setting_raises_an_error(saved):
    describe(saved, config=make_trained().model.get_config() | {"quantum": True})
    with pytest.raises(UserError, match=r"cannot build this model.*quantum"):
        TrainedModel.load(saved)


def test_load_never_runs_a_pickle(saved, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("exploded").touch, ())

    (saved / "model" / "model.weights.h5").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError, match="damaged"):
        TrainedModel.load(saved)
    assert not (tmp_path / "exploded").exists()


def test_load_without_a_model_raises_an_error(tmp_path):
    with pytest.raises(UserError, match=r"no trained model here: model.json"):
        TrainedModel.load(tmp_path)


def test_load_with_other_tokenizers_names_the_directory(saved):
    from keras_transformer.text import WordPieceTokenizer

    shutil.rmtree(saved / "model" / "tokenizers")
    TokenizerPair(WordPieceTokenizer(["a", "##b"])).save(saved / "model" / "tokenizers")
    RunManifest.new(saved / "model").add_all()
    with pytest.raises(UserError, match=r"model: .*has 260 ids, but the 'wordpiece' .* has 6"):
        TrainedModel.load(saved)
