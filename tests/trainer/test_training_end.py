"""What comes out of a training, and what is told under way."""

import json

import pytest
import tensorflow as tf

from keras_transformer.trainer import training_run
from tests.trainer.small_runs import make_recipe


@pytest.mark.parametrize("sentences", [0, 3])
def test_a_test_set_is_never_taken_for_the_validation_set(corpora, trainings, tmp_path, sentences):
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
def test_exactly_the_updates_that_were_asked_for_are_profiled(
    corpora, trainings, tmp_path, monkeypatch, call_seconds
):
    """However many updates a call makes, and whenever the curves get a point."""
    monkeypatch.setattr(training_run, "_CALL_SECONDS", call_seconds)
    told = []
    profiler = tf.profiler.experimental
    done = lambda: trainings.spy.updates[-1]  # noqa: E731
    monkeypatch.setattr(profiler, "start", lambda directory: told.append(("start", done())))
    monkeypatch.setattr(profiler, "stop", lambda: told.append(("stop", done())))
    recipe = make_recipe(corpora, tensorboard={"every": 50, "profile": [6, 7]})
    trainings.train(recipe, tmp_path / "run")
    assert told == [("start", 5), ("stop", 7)]


def test_the_epoch_of_an_update_that_has_batches_of_two(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, batches={"accumulate": 3}, training={"steps": None, "epochs": 9})
    trainings.train(recipe, tmp_path / "run")
    batches = len(trainings._compiled.loop.batches)
    assert batches % 3
    assert trainings.spy.epoch_steps == batches / 3
