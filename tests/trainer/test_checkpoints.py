"""Checkpoints that are damaged, half written or no longer needed."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.checkpoints import Checkpoints, DamagedCheckpointError, mean_weights

FILES = ("checkpoint.json", "tensors.index", "tensors.data-00000-of-00001")


def tensors_of(update):
    return {"weights/0000/kernel": tf.fill([3], float(update)), "optimizer/0000/step": update}


@pytest.fixture
def checkpoints(tmp_path):
    """Three of them: of the updates 10, 20 and 30."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=3)
    for update in (10, 20, 30):
        checkpoints.save(update, tensors_of(update), {"best_update": None, "update": update})
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


def test_a_checkpoint_is_read_as_it_was_written(checkpoints):
    newest = checkpoints.newest(pytest.fail)
    assert (newest.update, newest.state) == (30, {"best_update": None, "update": 30})
    tensors = newest.tensors()
    assert sorted(tensors) == ["optimizer/0000/step", "weights/0000/kernel"]
    np.testing.assert_array_equal(tensors["weights/0000/kernel"], [30.0] * 3)
    assert list(newest.tensors("optimizer/")) == ["optimizer/0000/step"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "kind",
    ["missing", "empty", "truncated", *(f"bit flipped at {place} %" for place in (0, 25, 50, 99))],
)
def test_a_damaged_one_is_set_aside_and_the_one_before_it_is_taken(checkpoints, kind, name):
    damage(kind, checkpoints.path(30) / name)
    said = []
    assert checkpoints.newest(said.append).update == 20
    (text,) = said
    assert text.startswith(f"{checkpoints.path(30)}: damaged, {name} is ")
    assert text.endswith(" Going back to the checkpoint before it.")
    # It is not deleted: somebody may want to know what has happened.
    (aside,) = checkpoints.directory.glob("update_00000030.*.damaged")
    assert {path.name for path in aside.iterdir()} >= set(FILES) - {name}
    assert checkpoints.updates() == [20, 10]
    # The way is free for the same checkpoint, made again.
    checkpoints.save(30, tensors_of(30), {})
    assert checkpoints.newest(pytest.fail).update == 30


def test_all_damaged(checkpoints):
    for update in checkpoints.updates():
        damage("truncated", checkpoints.path(update) / FILES[-1])
    said = []
    assert checkpoints.newest(said.append) is None
    assert [text.partition("written. ")[2] for text in said] == [
        "Going back to the checkpoint before it.",
        "Going back to the checkpoint before it.",
        "Going back to the start, as there is none before it.",
    ]
    assert len(list(checkpoints.directory.glob("*.damaged"))) == 3


def test_a_reader_sets_nothing_aside(checkpoints):
    damage("empty", checkpoints.path(30) / "checkpoint.json")
    reader = Checkpoints(checkpoints.directory, keep=3, is_writer=False)
    assert reader.newest(lambda text: None).update == 20
    assert reader.updates() == [30, 20, 10]


def test_a_checkpoint_of_another_version_is_refused_and_kept(checkpoints, monkeypatch):
    monkeypatch.setattr("keras_transformer.trainer.checkpoints.FORMAT", 2)
    message = r"update_00000030: has format 1, expected 2\. Use the version of keras_transformer"
    with pytest.raises(UserError, match=message):
        checkpoints.newest(pytest.fail)
    assert checkpoints.updates() == [30, 20, 10]


def test_half_written_ones_vanish(checkpoints):
    half = checkpoints.directory / ".update_00000040.0123456789abcdef"
    shutil.copytree(checkpoints.path(30), half)
    (half / "checkpoint.json").unlink()
    assert checkpoints.newest(pytest.fail).update == 30
    again = Checkpoints(checkpoints.directory, keep=3)
    assert not half.exists()
    assert again.updates() == [30, 20, 10]


def test_a_save_that_fails_costs_nothing(checkpoints, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    before = {path: path.stat().st_mtime_ns for path in checkpoints.directory.rglob("*")}
    monkeypatch.setattr("keras_transformer._utils.files._flush_to_disk", fail)
    message = (
        f"{checkpoints.path(40)}: No space left on device. Put that right, and the same command "
        "goes on from the last checkpoint."
    )
    with pytest.raises(OSError, match=f"^{re.escape(message)}$"):
        checkpoints.save(40, tensors_of(40), {})
    after = {path: path.stat().st_mtime_ns for path in checkpoints.directory.rglob("*")}
    assert after == before


def test_the_last_regular_ones_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for update in range(1, 9):
        is_regular = update % 2 == 0
        checkpoints.save(update, tensors_of(update), {"best_update": 3}, is_regular)
    assert checkpoints.updates() == [8, 6, 3]
    assert checkpoints.latest_regular(5) == [8, 6]


def test_what_is_there_is_not_written_again(checkpoints):
    checkpoints.save(30, tensors_of(99), {})
    assert checkpoints.newest(pytest.fail).state == {"best_update": None, "update": 30}


def test_the_mean_of_weights(checkpoints):
    mean = mean_weights([checkpoints.read(update) for update in (10, 20, 30)])
    assert list(mean) == ["weights/0000/kernel"]
    np.testing.assert_array_equal(mean["weights/0000/kernel"], np.float32([20.0] * 3))


def test_tensorflow_reads_them_without_this_package(checkpoints):
    reader = tf.train.load_checkpoint(str(checkpoints.path(30) / "tensors"))
    np.testing.assert_array_equal(reader.get_tensor("weights/0000/kernel"), [30.0] * 3)


def test_a_checkpoint_whose_description_was_edited_is_damaged(checkpoints):
    path = checkpoints.path(30) / "checkpoint.json"
    description = json.loads(path.read_text())
    description["content"]["update"] = 31
    path.write_text(json.dumps(description))
    with pytest.raises(DamagedCheckpointError, match=r"checkpoint\.json is not as it was written"):
        checkpoints.read(30)
