"""Result and profile of a finished training."""

import json

import pytest
import tensorflow as tf

from keras_transformer.trainer import load_recipe, train
from keras_transformer.trainer.progress import TrainingReport
from tests.trainer.small_runs import make_recipe, make_values


@pytest.mark.parametrize("sentences", [0, 3])
def test_test_corpus_is_never_used_for_validation(corpora, trainings, tmp_path, sentences):
    recipe = make_recipe(
        {**corpora, "test": {"unseen": [corpora["train"]]}},
        evaluation={"every": 12, "sentences": sentences},
        tensorboard={"attention": 2},
    )
    trainings.train(recipe, tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert ("bleu" in result["validation"]) == (sentences > 0)
    assert result["tests"]["unseen"]["sentences"] == 60


@pytest.mark.parametrize("call_seconds", [0.0, 1e9])
def test_profile_has_exactly_the_steps_of_the_recipe(
    corpora, trainings, tmp_path, monkeypatch, call_seconds
):
    """The number of steps per call and the points of the curves have no effect."""
    trainings.parts.call_seconds = call_seconds
    calls = []
    profiler = tf.profiler.experimental
    monkeypatch.setattr(
        profiler, "start", lambda directory: calls.append(("start", trainings.loop.steps_done))
    )
    monkeypatch.setattr(profiler, "stop", lambda: calls.append(("stop", trainings.loop.steps_done)))
    recipe = make_recipe(corpora, tensorboard={"every": 50, "profile": [6, 7]})
    trainings.train(recipe, tmp_path / "run")
    assert calls == [("start", 5), ("stop", 7)]


def test_epoch_whose_batches_do_not_fill_whole_steps(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, batches={"accumulate": 3}, training={"steps": None, "epochs": 9})
    trainings.train(recipe, tmp_path / "run")
    batches = len(trainings.loop.batches)
    assert batches % 3
    assert trainings.spy.epoch_steps == batches / 3


def test_recipe_as_dictionary_trains_like_the_recipe(corpora, trainings, tmp_path):
    trainings.train(make_values(corpora), tmp_path / "run")
    assert load_recipe(tmp_path / "run" / "recipe.yaml") == make_recipe(corpora)


def test_finished_run_is_returned_without_training(corpora, trainings, tmp_path):
    trainings.train(make_recipe(corpora), tmp_path / "run")
    # A path this time: the recipe that the run has stored.
    result = train(tmp_path / "run" / "recipe.yaml", tmp_path / "run", report=TrainingReport())
    assert (result.steps, result.stopped_by) == (12, None)
