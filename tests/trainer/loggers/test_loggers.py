"""Loggers: their content, files of resumed runs, and loggers registered by a test."""

import json
import pathlib
import socket
import types

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.callbacks import TrainingScalars
from keras_transformer.trainer.loggers import (
    LOGGERS,
    JsonlLogger,
    Logger,
    LoggerGroup,
    TensorBoardLogger,
    register_logger,
)
from tests.trainer.small_runs import make_recipe
from tests.trainer.tensorboard.events import close_all, read_events


@pytest.fixture(autouse=True)
def no_open_files():
    yield
    close_all()


# JSON lines.


def test_jsonl_logger_appends_a_line_per_call(tmp_path):
    logger = JsonlLogger.for_run(tmp_path, "run")
    logger.log_metrics("train", 1, {"loss": 0.1}, epoch=0.5)
    logger.log_metrics("validation", 2, {"loss": 1e-30}, epoch=1.0)
    lines = (tmp_path / "metrics.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        {"split": "train", "step": 1, "epoch": 0.5, "loss": 0.1},
        {"split": "validation", "step": 2, "epoch": 1.0, "loss": 1e-30},
    ]
    assert lines[-1] == b""


def test_jsonl_logger_leaves_out_what_depends_on_the_clock(tmp_path):
    logger = JsonlLogger.for_run(tmp_path, "run")
    logger.log_metrics("train", 1, {"loss": 0.1, "tokens_per_second": 5.0})
    assert "tokens_per_second" not in (tmp_path / "metrics.jsonl").read_text()


def test_jsonl_logger_names_the_file_if_the_disk_is_full():
    with pytest.raises(OSError, match=r"^/dev/full: No space left on device\."):
        JsonlLogger("/dev/full").log_metrics("train", 1, {})


# TensorBoard.


def test_tensorboard_logger_closes_its_own_files_only(tmp_path):
    one, other = TensorBoardLogger(tmp_path / "one"), TensorBoardLogger(tmp_path / "other")
    for logger in (one, other):
        logger.log_metrics("train", 1, {"loss": 1.0})
    one.close()
    # A closed logger begins a new file.
    for logger in (one, other):
        logger.log_metrics("train", 2, {"loss": 2.0})
        logger.flush()
    assert len(list(one.files())) == 2
    assert len(list(other.files())) == 1
    assert [event.step for event in read_events(tmp_path / "other" / "train")] == [1, 2]


def test_event_files_do_not_name_the_machine(tmp_path):
    logger = TensorBoardLogger(tmp_path)
    logger.log_metrics("train", 1, {"loss": 1.0})
    logger.log_text("train", 1, "translations", "one")
    logger.close()
    (path,) = logger.files()
    name = socket.gethostname()
    assert name not in path.name
    assert name.encode() not in path.read_bytes()


def test_events_stay_in_order_if_the_clock_goes_back(tmp_path, monkeypatch):
    """By TensorBoard's own reader, in whose order curves are drawn."""
    now = [2_000_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    for step in range(1, 5):
        logger = TensorBoardLogger(tmp_path)  # a resumed run, or the same one
        logger.log_metrics("train", 2 * step - 1, {"loss": 1.0})
        now[0] -= 100_000
        logger.log_metrics("train", 2 * step, {"loss": 1.0})
        logger.close()
    assert len(list(logger.files())) == 4
    accumulator = EventAccumulator(str(tmp_path / "train"))
    accumulator.Reload()
    events = accumulator.Tensors("loss")
    assert [event.step for event in events] == list(range(1, 9))
    times = [event.wall_time for event in events]
    assert times == sorted(times)


def test_callback_takes_a_logger_or_the_directory_of_tensorboard(tmp_path):
    assert TrainingScalars(tmp_path).logger.log_dir == tmp_path
    logger = JsonlLogger(tmp_path / "metrics.jsonl")
    assert TrainingScalars(logger).logger is logger


# Files of several loggers.


class FileLogger(Logger):
    """Logger with files that tests write."""

    def __init__(self, directory):
        self.directory = directory
        self.flushed = []

    @classmethod
    def for_run(cls, run_directory, name):
        return cls(run_directory)

    def log_metrics(self, split, step, metrics, epoch=None):
        raise NotImplementedError

    def flush(self):
        self.flushed.append("logger")

    def files(self):
        return [path for path in sorted(self.directory.rglob("*")) if path.is_file()]


@pytest.fixture
def group(tmp_path):
    return LoggerGroup([FileLogger(tmp_path)], tmp_path)


def test_truncate_removes_everything_after_the_checkpoint(group, tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "metrics").write_bytes(b"12345")
    (tmp_path / "events" / "one").write_bytes(b"1")
    sizes = group.file_sizes()
    assert sizes == {"events/one": 1, "metrics": 5}
    assert json.loads(json.dumps(sizes)) == sizes
    (tmp_path / "metrics").write_bytes(b"1234567")
    (tmp_path / "events" / "another").write_bytes(b"1")
    group.truncate(sizes, pytest.fail)
    assert (tmp_path / "metrics").read_bytes() == b"12345"
    assert not (tmp_path / "events" / "another").exists()
    group.truncate({}, pytest.fail)
    assert group.file_sizes() == {}


def test_file_sizes_are_those_on_disk(group, tmp_path, monkeypatch):
    """After a power failure, a checkpoint must not record more than there is."""
    (tmp_path / "metrics").write_bytes(b"1")
    flushed = group.loggers[0].flushed
    monkeypatch.setattr("os.fsync", lambda descriptor: flushed.append("file"))
    group.file_sizes()
    assert flushed == ["logger", "file"]


def test_truncate_reports_missing_logs(group, tmp_path):
    (tmp_path / "gone").write_bytes(b"1234")
    (tmp_path / "short").write_bytes(b"1234567")
    sizes = group.file_sizes()
    (tmp_path / "gone").unlink()
    (tmp_path / "short").write_bytes(b"123")
    said = []
    group.truncate(sizes, said.append)
    assert [text.partition(" The ")[0] for text in said] == [
        f"{tmp_path}/gone: had 4 bytes at the checkpoint, and has 0 now.",
        f"{tmp_path}/short: had 7 bytes at the checkpoint, and has 3 now.",
    ]


def test_files_of_a_logger_that_was_left_out_are_kept(group, tmp_path):
    (tmp_path / "metrics").write_bytes(b"12345")
    sizes = group.file_sizes()
    (tmp_path / "metrics").write_bytes(b"1234567")
    without = LoggerGroup([], tmp_path)
    without.truncate(sizes, pytest.fail)
    assert without.file_sizes() == sizes
    group.truncate(without.file_sizes(), pytest.fail)
    assert (tmp_path / "metrics").read_bytes() == b"12345"


# A logger of a service.


@pytest.fixture
def service():
    """Registers a logger, as a file in the package would; returns what it receives."""
    received = types.SimpleNamespace(calls=[], runs=[])

    @register_logger("test_service")
    class ServiceLogger(Logger):
        @classmethod
        def for_run(cls, run_directory, name):
            received.runs.append((pathlib.Path(run_directory).name, name))
            return cls()

        def log_metrics(self, split, step, metrics, epoch=None):
            received.calls.append((f"{split} metrics", step, {"epoch": epoch, **metrics}))

        def log_text(self, split, step, name, markdown):
            received.calls.append((f"text {name}", step, markdown))

        def log_images(self, split, step, name, images):
            received.calls.append((f"images {name}", step, images))

        def log_hyperparameters(self, values, *, name=None, metrics=None):
            received.calls.append(("hyperparameters", 0, values))

        def finish(self, step):
            received.calls.append(("finish", step, None))

        def close(self):
            received.calls.append(("close", None, None))

    yield received
    del LOGGERS["test_service"]


def test_registered_logger_receives_everything_of_a_training(corpora, trainings, tmp_path, service):
    recipe = make_recipe(
        corpora,
        training={"loggers": ["jsonl", "test_service"]},
        evaluation={"every": 6, "sentences": 2},
        tensorboard={"every": 6, "attention": 1, "samples": 2, "projector": True},
    )
    trainings.train(recipe, tmp_path / "run")
    assert service.runs == [("run", "run")]
    assert [call[:2] for call in service.calls] == [
        ("hyperparameters", 0),
        *(
            (name, step)
            for step in (6, 12)
            for name in (
                "train metrics",
                "text translations",
                "images attention/encoder/layer_1",
                "images attention/decoder/layer_1",
                "images attention/cross/layer_1",
                "validation metrics",
            )
        ),
        ("finish", 12),
        ("close", None),
    ]
    values = {name: value for name, _, value in service.calls}
    assert values["hyperparameters"]["model.hidden_dim"] == 16
    assert {"epoch", "loss", "learning_rate", "tokens_per_second"} <= set(values["train metrics"])
    assert {"epoch", "loss", "bleu"} <= set(values["validation metrics"])
    assert values["text translations"].startswith("| source |")
    assert all(image.startswith(b"\x89PNG") for image in values["images attention/cross/layer_1"])
    # Only the chosen loggers have files.
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_unknown_logger_is_refused(corpora):
    with pytest.raises(UserError, match=r"training\.loggers"):
        make_recipe(corpora, training={"loggers": ["jsonl", "nowhere"]})
