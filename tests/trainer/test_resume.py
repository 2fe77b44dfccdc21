"""A training that was stopped ends as if it never had been."""

import dataclasses
import json
import random
import signal

import keras
import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer import TrainingFailed, TrainingStopped, training
from keras_transformer.trainer.signals import SIGNALS, StopSignal
from tests.trainer.small_runs import (
    checkpoint_of,
    left_by,
    make_recipe,
    require_same,
    updates_of,
    weights_of,
    write_corpora,
)


@pytest.fixture(autouse=True)
def default_handlers():
    """A shell that runs the tests in the background has SIGINT ignored."""
    old = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def seed():
    """Recipes have one of their own."""


@pytest.fixture(scope="module")
def undisturbed(corpora, tmp_path_factory):
    """The recipe over the corpora, and all that a run without a stop leaves."""
    from tests.trainer.small_runs import Trainings

    recipe = make_recipe(corpora)
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        trainings = Trainings(monkeypatch)
        # Many updates in a call: it must not matter.
        monkeypatch.setattr("keras_transformer.trainer.training_run._CALL_SECONDS", 1e9)
        trainings.train(recipe, run)
    return recipe, left_by(run)


def stopped_at(trainings, recipe, run, update):
    with pytest.raises(TrainingStopped) as stopped:
        trainings.train(recipe, run, stop_after=update)
    assert (stopped.value.step, stopped.value.exit_code) == (update, 143)
    assert str(stopped.value).startswith(f"Saved at update {update}. The same command goes on")


def test_stops_leave_no_trace(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    # The first one, one between two points, with an evaluation, at the end of an epoch, with a
    # point, at the same update a second time, and the last but one.
    for update in (1, 2, 4, 6, 9, 11):
        stopped_at(trainings, recipe, run, update)
    said = trainings.train(recipe, run)
    assert said[0] == "Going on after update 11."
    require_same(run, expected)


@pytest.mark.parametrize("stage", ["Evaluating the final weights", "Saving the model"])
def test_a_stop_after_the_last_update(undisturbed, trainings, tmp_path, stage):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_when=stage)
    assert not (run / "result.json").exists()
    assert trainings.train(recipe, run) == ["Going on after update 12."]
    assert trainings.spy.updates == []
    require_same(run, expected)


def test_a_stop_with_the_last_update(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_after=12)
    trainings.train(recipe, run)
    require_same(run, expected)


def spoil(run, update, name):
    path = run / "checkpoints" / f"update_{update:08d}" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Killed(BaseException):
    """As a kill -9, nothing is told and nothing is saved."""


def killed_after(trainings, recipe, run, update):
    def kill():
        raise Killed

    with pytest.raises(Killed):
        trainings.train(recipe, run, after={update: kill})


def test_what_a_killed_run_told_after_its_checkpoint_is_told_once(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    killed_after(trainings, recipe, run, 3)
    killed_after(trainings, recipe, run, 10)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"split": "tra')  # a line that was torn
    assert trainings.train(recipe, run)[0] == "Going on after update 8."
    require_same(run, expected)


def test_a_stop_while_evaluating_is_heeded_after_it(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    seen = []

    class StopWhileEvaluating(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            trainings._stop_request.request(signal.SIGINT)

        def on_test_end(self, logs=None):
            seen.append(sorted(logs))

    with pytest.raises(TrainingStopped) as stopped:
        trainings.train(recipe, run, callbacks=[StopWhileEvaluating()])
    assert (stopped.value.step, stopped.value.exit_code) == (4, 130)
    assert seen == [["accuracy", "loss", "perplexity"]]
    trainings.train(recipe, run)
    require_same(run, expected)


def test_moving_average_and_loss_scale(corpora, trainings, tmp_path):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        training={"precision": "mixed_float16", "ema": 0.9, "steps": 11},
        checkpoints={"final": "ema", "every": 5},
    )

    def overflow():
        # The next updates are left out, until the scale is small enough again.
        trainings._compiled.model.optimizer.dynamic_scale.assign(2.0**20)

    surprise = {4: overflow}
    trainings.train(recipe, tmp_path / "undisturbed", after=surprise)
    expected = left_by(tmp_path / "undisturbed")
    steps = [event.step for event in expected["events"]["train"] if event.tag == "loss"]
    assert steps[0] == 3
    assert steps[-1] < 9, "Some updates must have been left out."
    run = tmp_path / "run"
    for update in (3, 5, 8):
        with pytest.raises(TrainingStopped):
            trainings.train(recipe, run, stop_after=update, after=surprise)
    trainings.train(recipe, run, after=surprise)
    require_same(run, expected)


def test_best_weights_and_early_stopping(corpora, trainings, tmp_path):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        # So high a rate that it gets worse after a while.
        training={"learning_rate": 0.3, "steps": 40, "schedule": "constant", "clip_norm": None},
        evaluation={"every": 2, "stop_after": 3},
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
    for update in (best, best + 3, last - 1):
        stopped_at(trainings, recipe, run, update)
    with pytest.raises(StopSignal):
        trainings.train(recipe, run, stop_after=last)
    # Without the best weights there is no result, rather than another one.
    spoil(run, best, "tensors.index")
    message = (
        rf"update_{best:08d}: damaged, tensors\.index is not as it was written\. It held the best "
        r"weights\. To take others, give --force and --set checkpoints\.final=average or last"
    )
    with pytest.raises(UserError, match=message):
        trainings.train(recipe, run)
    assert not (run / "result.json").exists()
    spoil(run, best, "tensors.index")  # the same bit again: as it was
    trainings.train(recipe, run)
    assert trainings.spy.updates == [], "It had stopped early already."
    require_same(run, expected)


def test_after_damage_the_result_is_the_same(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stopped_at(trainings, recipe, run, 11)
    spoil(run, 11, "tensors.data-00000-of-00001")
    spoil(run, 8, "checkpoint.json")
    half = run / "checkpoints" / ".update_00000012.0123456789abcdef"
    half.mkdir()
    said = trainings.train(recipe, run)
    assert [text.partition("checkpoints/")[2] for text in said[:2]] == [
        "update_00000011: damaged, tensors.data-00000-of-00001 is not as it was written. Going "
        "back to the checkpoint before it.",
        "update_00000008: damaged, checkpoint.json is not as it was written. Going back to the "
        "checkpoint before it.",
    ]
    assert said[2] == "Going on after update 4."
    assert not half.exists()
    assert len(list(run.glob("checkpoints/*.damaged"))) == 2
    require_same(run, expected)


def test_when_all_is_damaged_it_starts_again(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stopped_at(trainings, recipe, run, 6)
    for update in (4, 6):
        spoil(run, update, "tensors.index")
    said = trainings.train(recipe, run)
    assert said[1].endswith("Going back to the start, as there is none before it.")
    assert trainings.spy.updates[0] == 1
    require_same(run, expected)


def test_a_damaged_one_among_those_averaged(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    stopped_at(trainings, recipe, run, 9)
    spoil(run, 4, "tensors.data-00000-of-00001")
    said = trainings.train(recipe, run)
    assert said[-1].endswith(
        "update_00000004: damaged, tensors.data-00000-of-00001 is not as it was written. The "
        "average is taken without it."
    )
    assert weights_of(run) != expected["model"]
    assert checkpoint_of(run, 12) == expected["checkpoints"][12]


@pytest.mark.parametrize(("name", "kind"), [("train", "training"), ("validation", "validation")])
def test_files_that_have_changed_under_way_are_refused(trainings, tmp_path, name, kind):
    data = write_corpora(tmp_path)
    recipe = make_recipe(data)
    run = tmp_path / "run"
    stopped_at(trainings, recipe, run, 2)
    path = tmp_path / f"{name}.tsv"
    old = path.read_text(encoding="utf-8")
    path.write_text(old.replace("Hunde", "Hünde"), encoding="utf-8")
    message = f"update_00000002: was made with other {kind} batches than the recipe's files give"
    with pytest.raises(UserError, match=message):
        trainings.train(recipe, run)
    path.write_text(old, encoding="utf-8")
    assert trainings.train(recipe, run)[0] == "Going on after update 2."


def test_a_changed_recipe_is_refused_before_anything_is_touched(undisturbed, trainings, tmp_path):
    recipe, _ = undisturbed
    run = tmp_path / "run"
    stopped_at(trainings, recipe, run, 2)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    changed = dataclasses.replace(recipe, seed=5)
    with pytest.raises(UserError, match=r"was begun with another recipe: seed was 1, is 5\."):
        trainings.train(changed, run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_finished_run_is_told_and_left_alone(undisturbed, trainings, tmp_path):
    recipe, expected = undisturbed
    run = tmp_path / "run"
    trainings.train(recipe, run)
    assert trainings.train(recipe, run) == [
        f"{run}: this run is finished. To train on, give --force and more updates with --set; to "
        "train again, another directory with --run."
    ]
    with pytest.raises(UserError, match=r"training\.steps was 12, is 14\..* with --force\."):
        trainings.train(make_recipe_with_steps(recipe, 14), run)
    assert "steps: 12\n" in (run / "recipe.yaml").read_text()
    require_same(run, expected)


def test_a_finished_run_goes_on_by_force(undisturbed, trainings, tmp_path):
    recipe, _ = undisturbed
    run = tmp_path / "run"
    trainings.train(recipe, run)
    said = trainings.train(make_recipe_with_steps(recipe, 14), run, force=True)
    assert said[0] == "Going on after update 12."
    assert json.loads((run / "result.json").read_text())["steps"] == 14
    assert "steps: 14\n" in (run / "recipe.yaml").read_text()


def test_another_metric_by_force(corpora, trainings, tmp_path):
    """One that nothing had been measured by."""
    run, changes = tmp_path / "run", {"sentences": 2, "metric": "bleu"}
    stopped_at(trainings, make_recipe(corpora), run, 6)
    trainings.train(make_recipe(corpora, evaluation=changes), run, force=True)
    result = json.loads((run / "result.json").read_text())
    assert result["best_step"] in (8, 12)
    assert result["best"]["bleu"] >= 0


def test_the_best_weights_by_force(corpora, trainings, tmp_path):
    """They are looked for among those that are kept."""
    run, kept = tmp_path / "run", {"every": 5, "keep": 1, "average": 1}
    stopped_at(trainings, make_recipe(corpora, checkpoints=kept), run, 6)
    assert json.loads(checkpoint_text(run, 6))["content"]["state"]["best_update"] == 4
    recipe = make_recipe(corpora, checkpoints={**kept, "final": "best"})
    said = trainings.train(recipe, run, force=True)
    assert "The weights after update 4, the best so far, were not kept. The best will" in said[0]
    assert json.loads((run / "result.json").read_text())["best_step"] in (8, 12)


def checkpoint_text(run, update):
    return (run / "checkpoints" / f"update_{update:08d}" / "checkpoint.json").read_text()


@pytest.mark.parametrize("attention", ["scaled_dot_product", "shaw"])
def test_a_start_before_the_first_checkpoint_leaves_no_trace(
    corpora, tmp_path, monkeypatch, attention
):
    """Whatever was drawn when the recipe was read again, weights are drawn alike."""
    drawn = []

    def build(*arguments, **settings):
        drawn.append((random.random(), np.random.random()))
        raise InterruptedError

    monkeypatch.setattr(training, "TrainingRun", build)
    for _ in range(2):
        with pytest.raises(InterruptedError):
            training.train(make_recipe(corpora, model={"attention": attention}), tmp_path / "run")
    assert drawn[0] == drawn[1]


def make_recipe_with_steps(recipe, steps):
    longer = dataclasses.replace(recipe.training, steps=steps)
    return dataclasses.replace(recipe, training=longer)


class Poison(keras.callbacks.Callback):
    """Spoils a weight after an update that is a point of the curves."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            weight = self.model.trainable_variables[0]
            weight.assign(weight * float("nan"))


def test_a_loss_that_is_not_finite(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, checkpoints={"every": 5}, evaluation={"every": 50})
    run = tmp_path / "run"
    told = []
    for _ in range(2):
        with pytest.raises(TrainingFailed) as failed:
            trainings.train(recipe, run, callbacks=[Poison()])
        told.append(str(failed.value))
        # That of update 5, from before the poison; update 7 was not made.
        assert updates_of(run) == [5]
        assert trainings._compiled.model.optimizer.iterations == 6
    assert told[0] == told[1]
    assert told[0].startswith(
        "The loss of update 7 is not finite (epoch 1, batch 4 to 5, loss nan, "
    )
    assert "The update was not made. Lower the learning rate" in told[0]
    assert trainings.spy.said == ["Going on after update 5."]
    assert '"update": 6,' in (run / "metrics.jsonl").read_text()
    assert "NaN" not in (run / "metrics.jsonl").read_text()


def test_a_validation_loss_that_is_not_finite(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, checkpoints={"every": 5}, evaluation={"every": 6})
    run = tmp_path / "run"
    message = r"^The validation loss after update 6 is not finite \(nan\)\. Lower the learning rate"
    with pytest.raises(TrainingFailed, match=message):
        trainings.train(recipe, run, callbacks=[Poison()])
    assert updates_of(run) == [5]
    assert "NaN" not in (run / "metrics.jsonl").read_text()
