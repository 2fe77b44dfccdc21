"""Checkpoints that are damaged, partly written or no longer needed."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.checkpoints import Checkpoints, DamagedCheckpointError, mean_weights

FILES = ("checkpoint.json", "tensors.index", "tensors.data-00000-of-00001")


def tensors_of(step):
    return {"weights/0000/kernel": tf.fill([3], float(step)), "optimizer/0000/step": step}


@pytest.fixture
def checkpoints(tmp_path):
    """Checkpoints of the steps 10, 20 and 30."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=3)
    for step in (10, 20, 30):
        checkpoints.save(step, tensors_of(step), {"best_step": None, "step": step})
    return checkpoints


def damage(kind, path):
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(content[:-1])
    else:
        place = int(kind.removeprefix("bit flipped at ").removesuffix(" %")) * len(content) // 100
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def test_checkpoint_is_read_as_it_was_written(checkpoints):
    newest = checkpoints.newest(pytest.fail)
    assert (newest.step, newest.state) == (30, {"best_step": None, "step": 30})
    tensors = newest.tensors()
    assert sorted(tensors) == ["optimizer/0000/step", "weights/0000/kernel"]
    np.testing.assert_array_equal(tensors["weights/0000/kernel"], [30.0] * 3)
    assert list(newest.tensors("optimizer/")) == ["optimizer/0000/step"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "kind",
    ["missing", "empty", "truncated", *(f"bit flipped at {place} %" for place in (0, 25, 50, 99))],
)
def test_damaged_checkpoint_is_renamed_and_the_previous_one_is_used(checkpoints, kind, name):
    damage(kind, checkpoints.path(30) / name)
    said = []
    assert checkpoints.newest(said.append).step == 20
    (text,) = said
    assert text.startswith(f"{checkpoints.path(30)}: damaged, {name} is ")
    # The damaged checkpoint is kept for investigation.
    (aside,) = checkpoints.directory.glob("step_00000030.*.damaged")
    assert {path.name for path in aside.iterdir()} >= set(FILES) - {name}
    assert checkpoints.steps() == [20, 10]
    checkpoints.save(30, tensors_of(30), {})
    assert checkpoints.newest(pytest.fail).step == 30


def test_newest_is_none_if_all_checkpoints_are_damaged(checkpoints):
    for step in checkpoints.steps():
        damage("truncated", checkpoints.path(step) / FILES[-1])
    said = []
    assert checkpoints.newest(said.append) is None
    assert ["starting over" in text for text in said] == [False, False, True]
    assert len(list(checkpoints.directory.glob("*.damaged"))) == 3


def test_reader_renames_nothing(checkpoints):
    damage("empty", checkpoints.path(30) / "checkpoint.json")
    reader = Checkpoints(checkpoints.directory, keep=3, is_writer=False)
    assert reader.newest(lambda text: None).step == 20
    assert reader.steps() == [30, 20, 10]


def test_checkpoint_of_another_version_is_refused_and_kept(checkpoints, monkeypatch):
    monkeypatch.setattr("keras_transformer.trainer.checkpoints.FORMAT", 2)
    with pytest.raises(UserError, match="step_00000030: has format 1, expected 2"):
        checkpoints.newest(pytest.fail)
    assert checkpoints.steps() == [30, 20, 10]


def test_partly_written_checkpoint_is_removed(checkpoints):
    half = checkpoints.directory / ".step_00000040.0123456789abcdef"
    shutil.copytree(checkpoints.path(30), half)
    (half / "checkpoint.json").unlink()
    assert checkpoints.newest(pytest.fail).step == 30
    again = Checkpoints(checkpoints.directory, keep=3)
    assert not half.exists()
    assert again.steps() == [30, 20, 10]


def test_failed_save_changes_nothing(checkpoints, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    before = {path: path.stat().st_mtime_ns for path in checkpoints.directory.rglob("*")}
    monkeypatch.setattr("keras_transformer._utils.files._flush_to_disk", fail)
    message = f"^{re.escape(str(checkpoints.path(40)))}: No space left on device"
    with pytest.raises(OSError, match=message):
        checkpoints.save(40, tensors_of(40), {})
    after = {path: path.stat().st_mtime_ns for path in checkpoints.directory.rglob("*")}
    assert after == before


def test_last_regular_checkpoints_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 9):
        is_regular = step % 2 == 0
        checkpoints.save(step, tensors_of(step), {"best_step": 3}, is_regular)
    assert checkpoints.steps() == [8, 6, 3]
    assert checkpoints.latest_regular(5) == [8, 6]


def test_existing_checkpoint_is_not_written_again(checkpoints):
    checkpoints.save(30, tensors_of(99), {})
    assert checkpoints.newest(pytest.fail).state == {"best_step": None, "step": 30}


def test_mean_weights_leaves_out_the_optimizer(checkpoints):
    mean = mean_weights([checkpoints.read(step) for step in (10, 20, 30)])
    assert list(mean) == ["weights/0000/kernel"]
    np.testing.assert_array_equal(mean["weights/0000/kernel"], np.float32([20.0] * 3))


def test_tensorflow_reads_the_tensors_by_itself(checkpoints):
    reader = tf.train.load_checkpoint(str(checkpoints.path(30) / "tensors"))
    np.testing.assert_array_equal(reader.get_tensor("weights/0000/kernel"), [30.0] * 3)


def test_checkpoint_with_edited_description_is_damaged(checkpoints):
    path = checkpoints.path(30) / "checkpoint.json"
    description = json.loads(path.read_text())
    description["content"]["step"] = 31
    path.write_text(json.dumps(description))
    with pytest.raises(DamagedCheckpointError, match=r"checkpoint\.json is not as it was written"):
        checkpoints.read(30)
