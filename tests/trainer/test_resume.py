"""Interrupted and resumed trainings end exactly like uninterrupted ones."""

import dataclasses
import json
import random
import signal

import keras
import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer import TrainingFailed, TrainingStopped, train
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.signals import SIGNALS, StopSignal
from tests.trainer.small_runs import (
    checkpoint_of,
    left_by,
    make_recipe,
    require_same,
    steps_of,
    weights_of,
    write_corpora,
)


@pytest.fixture(autouse=True)
def default_handlers():
    """Restores handlers: a shell that runs the tests in the background ignores SIGINT."""
    old = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def seed():
    """Overrides the seed of all tests: recipes have their own."""


@pytest.fixture(scope="module")
def undisturbed(corpora, tmp_path_factory):
    """The recipe, and everything that an uninterrupted run leaves."""
    from tests.trainer.small_runs import Trainings

    recipe = make_recipe(corpora)
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    trainings = Trainings()
    trainings.parts.call_seconds = 1e9  # many steps per call, which must not matter
    trainings.train(recipe, run)
    return recipe, left_by(run)


def stop_at(trainings, recipe, run, step):
    with pytest.raises(TrainingStopped) as stopped:
        trainings.train(recipe, run, stop_after=step)
    assert (stopped.value.step, stopped.value.exit_code) == (step, 143)
    assert f"saved at step {step}." in str(stopped.value)


def test_run_interrupted_at_any_step_equals_uninterrupted_run(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    # After the first step, between two points of the curves, with an evaluation and the end of an
    # epoch, with a point of the curves, and before the last step.
    for step in (1, 2, 4, 6, 9, 11):
        stop_at(trainings, recipe, run, step)
    said = trainings.train(recipe, run)
    assert said[0] == "Resuming from step 11."
    require_same(run, expected)


@pytest.mark.parametrize("stage", ["Evaluating the final weights", "Saving the model"])
def test_run_interrupted_after_last_step_equals_uninterrupted_run(
    undisturbed, trainings, tmp_path, stage
):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_when=stage)
    assert not (run / "result.json").exists()
    assert trainings.train(recipe, run) == ["Resuming from step 12."]
    assert trainings.spy.steps == []
    require_same(run, expected)


def test_run_interrupted_at_last_step_equals_uninterrupted_run(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_after=12)
    trainings.train(recipe, run)
    require_same(run, expected)


def damage(run, step, name):
    path = run / "checkpoints" / f"step_{step:08d}" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Killed(BaseException):
    """Like kill -9: nothing is reported and nothing is saved."""


def kill_after(trainings, recipe, run, step):
    def kill():
        raise Killed

    with pytest.raises(Killed):
        trainings.train(recipe, run, after={step: kill})


def test_killed_run_logs_nothing_twice(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    kill_after(trainings, recipe, run, 3)
    kill_after(trainings, recipe, run, 10)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"split": "tra')  # an incomplete line
    assert trainings.train(recipe, run)[0] == "Resuming from step 8."
    require_same(run, expected)


def test_stop_signal_during_evaluation_is_obeyed_after_it(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    seen = []

    class StopWhileEvaluating(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            trainings.parts.stop_request.request(signal.SIGINT)

        def on_test_end(self, logs=None):
            seen.append(sorted(logs))

    with pytest.raises(TrainingStopped) as stopped:
        trainings.train(recipe, run, callbacks=[StopWhileEvaluating()])
    assert (stopped.value.step, stopped.value.exit_code) == (4, 130)
    assert seen == [["accuracy", "loss", "perplexity"]]
    trainings.train(recipe, run)
    require_same(run, expected)


def test_interrupted_run_with_moving_average_and_loss_scale_equals_uninterrupted_run(
    corpora, trainings, tmp_path
):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        training={"precision": "mixed_float16", "ema": 0.9, "steps": 11},
        checkpoints={"final": "ema", "every": 5},
    )

    def overflow():
        # The next steps are skipped, until the scale is small enough.
        trainings.model.optimizer.dynamic_scale.assign(2.0**20)

    surprise = {4: overflow}
    trainings.train(recipe, tmp_path / "undisturbed", after=surprise)
    expected = left_by(tmp_path / "undisturbed")
    steps = [event.step for event in expected["events"]["train"] if event.tag == "loss"]
    assert steps == [3, 6, 9]
    assert trainings.model.optimizer.iterations < 11, "Some steps must have been skipped."
    run = tmp_path / "run"
    for step in (3, 5, 8):
        with pytest.raises(TrainingStopped):
            trainings.train(recipe, run, stop_after=step, after=surprise)
    trainings.train(recipe, run, after=surprise)
    require_same(run, expected)


def test_interrupted_run_with_best_weights_and_early_stopping_equals_uninterrupted_run(
    corpora, trainings, tmp_path
):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        # The rate is so high that the loss rises after some steps.
        training={"learning_rate": 0.3, "steps": 40, "schedule": "constant", "clip_norm": None},
        evaluation={"every": 2, "patience": 3},
        checkpoints={"final": "best", "every": 5, "keep": 1, "average": 1},
    )
    trainings.train(recipe, tmp_path / "undisturbed")
    expected = left_by(tmp_path / "undisturbed")
    result = expected["result"]
    best, last = result["best_step"], result["steps"]
    assert (result["stopped_by"], last) == ("early stopping", best + 6)
    assert last < 40
    assert list(expected["checkpoints"]) == [last, best]
    assert result["validation"]["loss"] == pytest.approx(result["best"]["loss"])
    run = tmp_path / "run"
    for step in (best, best + 3, last - 1):
        stop_at(trainings, recipe, run, step)
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_after=last)
    # Without the best weights there is an error, not another result.
    damage(run, best, "tensors.index")
    message = rf"step_{best:08d}: damaged, tensors\.index .* best weights.* checkpoints\.final"
    with pytest.raises(UserError, match=message):
        trainings.train(recipe, run)
    assert not (run / "result.json").exists()
    damage(run, best, "tensors.index")  # flips the same bit back
    trainings.train(recipe, run)
    assert trainings.spy.steps == [], "The run had stopped early already."
    require_same(run, expected)


def test_run_with_damaged_checkpoints_resumes_from_an_earlier_one(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stop_at(trainings, recipe, run, 11)
    damage(run, 11, "tensors.data-00000-of-00001")
    damage(run, 8, "checkpoint.json")
    half = run / "checkpoints" / ".step_00000012.0123456789abcdef"
    half.mkdir()
    said = trainings.train(recipe, run)
    assert "step_00000011: damaged, tensors.data-00000-of-00001" in said[0]
    assert "step_00000008: damaged, checkpoint.json" in said[1]
    assert said[2] == "Resuming from step 4."
    assert not half.exists()
    assert len(list(run.glob("checkpoints/*.damaged"))) == 2
    require_same(run, expected)


def test_run_whose_checkpoints_are_all_damaged_starts_over(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stop_at(trainings, recipe, run, 6)
    for step in (4, 6):
        damage(run, step, "tensors.index")
    said = trainings.train(recipe, run)
    assert "starting over" in said[1]
    assert trainings.spy.steps[0] == 1
    require_same(run, expected)


def test_average_leaves_out_a_damaged_checkpoint(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stop_at(trainings, recipe, run, 9)
    damage(run, 4, "tensors.data-00000-of-00001")
    said = trainings.train(recipe, run)
    assert "step_00000004: damaged, tensors.data-00000-of-00001" in said[-1]
    assert said[-1].endswith("left out of the average.")
    assert weights_of(run) != expected["model"]
    assert checkpoint_of(run, 12) == expected["checkpoints"][12]


@pytest.mark.parametrize(("name", "kind"), [("train", "training"), ("validation", "validation")])
def test_resuming_with_changed_files_is_refused(trainings, tmp_path, name, kind):
    data = write_corpora(tmp_path)
    recipe = make_recipe(data)
    run = tmp_path / "run"
    stop_at(trainings, recipe, run, 2)
    path = tmp_path / f"{name}.tsv"
    old = path.read_text(encoding="utf-8")
    path.write_text(old.replace("Hunde", "Hünde"), encoding="utf-8")
    message = f"step_00000002: .* other {kind} batches"
    with pytest.raises(UserError, match=message):
        trainings.train(recipe, run)
    path.write_text(old, encoding="utf-8")
    assert trainings.train(recipe, run)[0] == "Resuming from step 2."


def test_resuming_with_changed_recipe_is_refused_before_anything_is_written(
    undisturbed, trainings, tmp_path
):
    recipe, _ = undisturbed
    run = tmp_path / "run"
    stop_at(trainings, recipe, run, 2)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    changed = dataclasses.replace(recipe, seed=5)
    with pytest.raises(UserError, match=r"another recipe: seed was 1, is 5\."):
        trainings.train(changed, run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_finished_run_is_reported_and_left_alone(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    trainings.train(recipe, run)
    (said,) = trainings.train(recipe, run)
    assert said.startswith(f"{run}: this run is finished. ")
    with pytest.raises(UserError, match=r"training\.steps was 12, is 14\..* with --force\."):
        trainings.train(make_recipe_with_steps(recipe, 14), run)
    assert "steps: 12\n" in (run / "recipe.yaml").read_text()
    require_same(run, expected)


def test_finished_run_is_resumed_with_more_steps_by_force(undisturbed, trainings, tmp_path):
    recipe, _ = undisturbed
    run = tmp_path / "run"
    trainings.train(recipe, run)
    said = trainings.train(make_recipe_with_steps(recipe, 14), run, force=True)
    assert said[0] == "Resuming from step 12."
    assert json.loads((run / "result.json").read_text())["steps"] == 14
    assert "steps: 14\n" in (run / "recipe.yaml").read_text()


def test_metric_can_be_changed_by_force(corpora, trainings, tmp_path):
    run, changes = tmp_path / "run", {"sentences": 2, "metric": "bleu"}
    stop_at(trainings, make_recipe(corpora), run, 6)
    trainings.train(make_recipe(corpora, evaluation=changes), run, force=True)
    result = json.loads((run / "result.json").read_text())
    assert result["best_step"] in (8, 12)
    assert result["best"]["bleu"] >= 0


def test_final_weights_can_be_changed_to_best_by_force(corpora, trainings, tmp_path):
    """The best step so far is forgotten, because its checkpoint was not kept."""
    run, kept = tmp_path / "run", {"every": 5, "keep": 1, "average": 1}
    stop_at(trainings, make_recipe(corpora, checkpoints=kept), run, 6)
    assert json.loads(checkpoint_text(run, 6))["content"]["state"]["best_step"] == 4
    recipe = make_recipe(corpora, checkpoints={**kept, "final": "best"})
    said = trainings.train(recipe, run, force=True)
    assert "step 4, the best so far, were not kept" in said[0]
    assert json.loads((run / "result.json").read_text())["best_step"] in (8, 12)


def checkpoint_text(run, step):
    return (run / "checkpoints" / f"step_{step:08d}" / "checkpoint.json").read_text()


@pytest.mark.parametrize("attention", ["scaled_dot_product", "shaw"])
def test_run_restarted_before_first_checkpoint_starts_with_the_same_weights(
    corpora, tmp_path, attention
):
    """Random numbers that reading the recipe draws have no effect on the weights."""
    drawn = []

    class Interrupted(TrainingParts):
        def make_model(self, recipe, tokenizers):
            drawn.append((random.random(), np.random.random()))
            raise InterruptedError

    for _ in range(2):
        recipe = make_recipe(corpora, model={"attention": attention})
        with pytest.raises(InterruptedError):
            train(recipe, tmp_path / "run", parts=Interrupted())
    assert drawn[0] == drawn[1]


def make_recipe_with_steps(recipe, steps):
    longer = dataclasses.replace(recipe.training, steps=steps)
    return dataclasses.replace(recipe, training=longer)


class Poison(keras.callbacks.Callback):
    """Sets a weight to NaN after step 6."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 6:
            weight = self.model.trainable_variables[0]
            weight.assign(weight * float("nan"))


def test_training_with_loss_that_is_not_finite_fails_and_keeps_the_checkpoint(
    corpora, trainings, tmp_path
):
    recipe = make_recipe(corpora, checkpoints={"every": 5}, evaluation={"every": 50})
    run = tmp_path / "run"
    told = []
    for _ in range(2):
        with pytest.raises(TrainingFailed) as failed:
            trainings.train(recipe, run, callbacks=[Poison()])
        told.append(str(failed.value))
        # The checkpoint is from before the weight became NaN, and step 7 was not run.
        assert steps_of(run) == [5]
        assert trainings.model.optimizer.iterations == 6
    assert told[0] == told[1]
    assert "loss of step 7 is not finite (epoch 1, batch 4 to 5, loss nan, " in told[0]
    assert trainings.spy.said == ["Resuming from step 5."]
    assert '"step": 6,' in (run / "metrics.jsonl").read_text()
    assert "NaN" not in (run / "metrics.jsonl").read_text()


def test_training_with_validation_loss_that_is_not_finite_fails(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, checkpoints={"every": 5}, evaluation={"every": 6})
    run = tmp_path / "run"
    with pytest.raises(TrainingFailed, match=r"validation loss of step 6 is not finite \(nan\)"):
        trainings.train(recipe, run, callbacks=[Poison()])
    assert steps_of(run) == [5]
    assert "NaN" not in (run / "metrics.jsonl").read_text()
