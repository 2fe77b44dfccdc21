"""Logs that are taken back to what they were at a checkpoint."""

import json
import pathlib

import pytest

from keras_transformer.trainer.metrics_log import GrowingLogs


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "tensorboard" / "train").mkdir(parents=True)
    return GrowingLogs(tmp_path / "metrics.jsonl", tmp_path / "tensorboard", flush=lambda: None)


def test_a_line_for_each(logs, tmp_path):
    logs.write({"split": "train", "loss": 0.1})
    logs.write({"split": "validation", "loss": 1e-30})
    lines = (tmp_path / "metrics.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        {"split": "train", "loss": 0.1},
        {"split": "validation", "loss": 1e-30},
    ]
    assert lines[-1] == b""


def test_all_that_came_after_is_cut_away(logs, tmp_path):
    events = tmp_path / "tensorboard" / "train"
    logs.write({"update": 1})
    (events / "one").write_bytes(b"12345")
    sizes = logs.sizes()
    assert sizes == {"metrics.jsonl": 14, "tensorboard/train/one": 5}
    assert json.loads(json.dumps(sizes)) == sizes
    logs.write({"update": 2})
    (events / "one").write_bytes(b"1234567")
    (events / "another").write_bytes(b"1")
    logs.cut_to(sizes, pytest.fail)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"update": 1}\n'
    assert (events / "one").read_bytes() == b"12345"
    assert not (events / "another").exists()


def test_before_the_first_checkpoint_there_is_nothing(logs, tmp_path):
    logs.write({"update": 1})
    logs.cut_to({}, pytest.fail)
    assert logs.sizes() == {}


def test_everything_is_on_the_disk_when_the_sizes_are_told(tmp_path, monkeypatch):
    """After a power cut, a checkpoint must not know more of the logs than there is."""
    flushed = []
    (tmp_path / "tensorboard").mkdir()
    path = tmp_path / "metrics.jsonl"
    logs = GrowingLogs(path, tmp_path / "tensorboard", lambda: flushed.append("events"))
    logs.write({"update": 1})
    monkeypatch.setattr("os.fsync", lambda descriptor: flushed.append("a file"))
    logs.sizes()
    assert flushed == ["events", "a file"]


def test_what_is_gone_is_told(logs, tmp_path):
    logs.write({"update": 1})
    (tmp_path / "tensorboard" / "one").write_bytes(b"1234567")
    sizes = logs.sizes()
    (tmp_path / "tensorboard" / "one").write_bytes(b"123")
    (tmp_path / "metrics.jsonl").unlink()
    said = []
    logs.cut_to(sizes, said.append)
    assert [text.partition(" What it told is lost")[0] for text in said] == [
        f"{tmp_path}/metrics.jsonl: had 14 bytes at the checkpoint, and has 0 now.",
        f"{tmp_path}/tensorboard/one: had 7 bytes at the checkpoint, and has 3 now.",
    ]


def test_a_full_disk_is_told_with_the_files_name(tmp_path):
    logs = GrowingLogs(pathlib.Path("/dev/full"), tmp_path, flush=lambda: None)
    with pytest.raises(OSError, match=r"^/dev/full: No space left on device\. Put that right, and"):
        logs.write({"update": 1})
