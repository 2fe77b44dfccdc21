"""The script `kill_nine.py`, which kills trainings, with one kill."""

import pathlib
import subprocess
import sys

import h5py
import numpy as np

import keras_transformer

ROOT = pathlib.Path(keras_transformer.__file__).parents[1]


def test_killed_training_equals_an_undisturbed_one(tmp_path):
    script = ROOT / "training" / "reliability" / "kill_nine.py"
    command = [sys.executable, str(script), "--kills", "1", "--directory", str(tmp_path / "runs")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    assert [line.split()[1] for line in lines if line[:4].strip().isdigit()] == [
        "SIGKILL",
        "SIGTERM",
        "SIGINT",
    ]
    assert lines[-1] == "Weights, optimizer, metrics and events are identical bit for bit."


def write_weights(run, value):
    with h5py.File(run / "model" / "model.weights.h5", "w") as file:
        file["layers/dense/vars/0"] = np.float32([value])


def test_differing_finds_differences(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "training" / "reliability"))
    import kill_nine

    for name in ("one", "other"):
        run = tmp_path / name
        for file in (
            "checkpoints/step_00000002/tensors.data-00000-of-00001",
            "metrics.jsonl",
            "tensorboard/train/nothing",
            "tensorboard/validation/nothing",
        ):
            (run / file).parent.mkdir(parents=True, exist_ok=True)
            (run / file).write_text(file)
        (run / "model").mkdir()
        write_weights(run, 1.0)
    assert list(kill_nine.differing(tmp_path / "one", tmp_path / "other")) == []
    (tmp_path / "other" / "metrics.jsonl").write_text("something else")
    write_weights(tmp_path / "other", 1.0000001)
    assert list(kill_nine.differing(tmp_path / "one", tmp_path / "other")) == [
        "metrics.jsonl",
        "model/model.weights.h5",
    ]
    (tmp_path / "other" / "checkpoints" / "step_00000002").rename(tmp_path / "gone")
    (text,) = kill_nine.differing(tmp_path / "one", tmp_path / "other")
    assert text.startswith("checkpoints: [], not ['checkpoints/step_00000002/tensors.data")
