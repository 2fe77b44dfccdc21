"""Keras' callbacks in trainings by recipe: order, logs, stop_training."""

import collections
import csv
import json

import keras
import pytest

from tests.trainer.small_runs import make_recipe


class Recorder(keras.callbacks.Callback):
    """Records the names, positions and logs of all calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append(("train begin",))

    def on_train_end(self, logs=None):
        self.calls.append(("train end",))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch begin", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch end", epoch, dict(logs)))

    def on_train_batch_begin(self, batch, logs=None):
        self.calls.append(("batch begin", batch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch end", batch, dict(logs)))

    def on_test_begin(self, logs=None):
        self.calls.append(("test begin",))

    def on_test_end(self, logs=None):
        self.calls.append(("test end", dict(logs)))

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


def metrics(run, split):
    with (run / "metrics.jsonl").open(encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["split"] == split]


@pytest.fixture
def recipe(corpora):
    """12 steps, with an evaluation after each second one and a point of the curves at each."""
    return make_recipe(
        corpora,
        batches={"accumulate": 1},
        evaluation={"every": 2},
        tensorboard={"every": 1},
        checkpoints={"every": 50},
    )


def test_callbacks_are_called_in_the_order_of_fit(recipe, trainings, tmp_path):
    recorder = Recorder()
    trainings.train(recipe, tmp_path / "run", callbacks=[recorder])
    epoch_steps = len(trainings.loop.batches)
    expected = [("train begin",)]
    for step in range(12):
        epoch, batch = divmod(step, epoch_steps)
        if batch == 0:
            expected.append(("epoch begin", epoch))
        expected += [("batch begin", batch), ("batch end", batch)]
        if (step + 1) % 2 == 0:
            expected += [("test begin",), ("test end",)]
        if batch == epoch_steps - 1 or step == 11:
            expected.append(("epoch end", epoch))
    expected.append(("train end",))
    # Without logs.
    calls = [tuple(part for part in call if not isinstance(part, dict)) for call in recorder.calls]
    assert calls == expected
    assert recorder.params == {"epochs": -(-12 // epoch_steps), "steps": epoch_steps, "verbose": 0}


def test_logs_of_epoch_are_its_means_and_its_last_evaluation(recipe, trainings, tmp_path):
    recorder = Recorder()
    trainings.train(recipe, tmp_path / "run", callbacks=[recorder])
    epoch_steps = len(trainings.loop.batches)
    (epoch, logs), *_ = recorder.named("epoch end")
    steps = metrics(tmp_path / "run", "train")[:epoch_steps]
    losses = [line["loss"] for line in steps]
    assert epoch == 0
    assert min(losses) < logs["loss"] < max(losses)
    evaluations = metrics(tmp_path / "run", "validation")
    last = [line for line in evaluations if line["step"] <= epoch_steps][-1]
    assert logs["val_loss"] == last["loss"]
    assert logs["val_accuracy"] == last["accuracy"]
    # As in `fit`, the logs of batches are the means over the epoch so far.
    batch_logs = [logs for _, logs in recorder.named("batch end")]
    assert batch_logs[0]["loss"] == losses[0]
    assert batch_logs[epoch_steps - 1]["loss"] == logs["loss"]
    assert (
        batch_logs[epoch_steps]["loss"] == metrics(tmp_path / "run", "train")[epoch_steps]["loss"]
    )
    assert batch_logs[0]["tokens_per_second"] > 0


def test_call_of_many_steps_reports_first_and_last_batch(recipe, trainings, tmp_path):
    """As `fit` does with `steps_per_execution`."""
    trainings.parts.call_seconds = 1e9
    recorder = Recorder()
    recipe = make_recipe(recipe.to_dictionary()["data"], batches={"accumulate": 1})
    trainings.train(recipe, tmp_path / "run", callbacks=[recorder])
    first = [batch for (batch,) in recorder.named("batch begin")]
    last = [batch for batch, _ in recorder.named("batch end")]
    assert first[:3] == [0, 1, 3]  # the first call has one step; the others end with an event
    assert last[:3] == [0, 2, 3]  # points of the curves each 3 steps, evaluations each 4


def test_csv_logger_writes_a_row_per_epoch(recipe, trainings, tmp_path):
    path = tmp_path / "epochs.csv"
    trainings.train(recipe, tmp_path / "run", callbacks=[keras.callbacks.CSVLogger(path)])
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(len(rows)))
    assert all(float(row["loss"]) > 0 and float(row["val_loss"]) > 0 for row in rows)


def test_early_stopping_ends_the_training(corpora, trainings, tmp_path):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        training={"steps": 30, "schedule": "constant"},
        evaluation={"every": 2},
    )
    # No improvement is large enough.
    stopping = keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
    trainings.train(recipe, tmp_path / "run", callbacks=[stopping])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    # The first epoch is the best one, the second is not better.
    assert result["steps"] == 2 * len(trainings.loop.batches)
    assert result["stopped_by"] == "a callback"


def test_stop_training_is_obeyed_after_the_current_call(recipe, trainings, tmp_path):
    recorder = Recorder()

    def stop(batch, logs):
        if trainings.loop.steps_done == 3:
            trainings.model.stop_training = True

    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=stop), recorder]
    trainings.train(recipe, tmp_path / "run", callbacks=callbacks)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["steps"], result["stopped_by"]) == (3, "a callback")
    counts = collections.Counter(call[0] for call in recorder.calls)
    assert counts["batch end"] == 3
    assert counts["epoch begin"] == counts["epoch end"] == 1
    assert counts["train end"] == 1
    assert (tmp_path / "run" / "checkpoints" / "step_00000003").exists()


def test_reduce_lr_on_plateau_changes_a_constant_learning_rate(corpora, trainings, tmp_path):
    recipe = make_recipe(
        corpora,
        batches={"accumulate": 1},
        training={"steps": 30, "schedule": "constant"},
        evaluation={"every": 2},
        tensorboard={"every": 1},
    )
    reduce = keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, factor=0.1, min_delta=100.0)
    trainings.train(recipe, tmp_path / "run", callbacks=[reduce])
    rates = [line["learning_rate"] for line in metrics(tmp_path / "run", "train")]
    epoch_steps = len(trainings.loop.batches)
    assert rates[: 2 * epoch_steps] == [pytest.approx(0.01)] * 2 * epoch_steps
    assert rates[2 * epoch_steps] == pytest.approx(0.001)


def test_interrupted_epoch_has_the_logs_of_an_uninterrupted_one(recipe, trainings, tmp_path):
    from keras_transformer.trainer import TrainingStopped

    whole, recorder = Recorder(), Recorder()
    trainings.train(recipe, tmp_path / "whole", callbacks=[whole])
    for step in (1, 2, 5):
        with pytest.raises(TrainingStopped):
            trainings.train(recipe, tmp_path / "run", callbacks=[recorder], stop_after=step)
    trainings.train(recipe, tmp_path / "run", callbacks=[recorder])
    assert recorder.named("epoch end") == whole.named("epoch end")
