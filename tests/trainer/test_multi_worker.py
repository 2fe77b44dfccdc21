"""Two worker processes on this machine, started by the command, compared with one process."""

import json
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import time

import pytest

import keras_transformer
from keras_transformer.cli.main import main
from tests.phrases import make_pairs

LAUNCHER = pathlib.Path(
    keras_transformer.__file__, "../../training/multi_worker/launch_local.py"
).resolve()
COMMAND = str(pathlib.Path(sys.executable).with_name("keras-transformer"))

RECIPE = """
name: phrases
task: translation
data: {train: train.tsv, validation: validation.tsv}
text: {tokenizer: bytes}
model: {size: tiny, hidden_dim: 16, intermediate_dim: 32, num_heads: 2, num_encoder_layers: 1,
  num_decoder_layers: 1, dropout: 0.0}
batches: {tokens: 600, max_length: 64, max_buckets: 3, accumulate: 2}
training: {steps: 20, schedule: cosine, learning_rate: 0.01, warmup_steps: 5, clip_norm: 0.5,
  ema: 0.9, deterministic: false}
evaluation: {every: 10, sentences: 2, search: {beams: 1, max_length: 8}, metric: bleu}
checkpoints: {every: 5, final: average, average: 2}
tensorboard: {every: 1, attention: 0, projector: false}
export: {enabled: false}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The path of a recipe in the current directory, beside its files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    lines = ["\t".join(pair) + "\n" for pair in make_pairs()[::2]]
    (tmp_path / "train.tsv").write_text("".join(lines[5:]), encoding="utf-8")
    (tmp_path / "validation.tsv").write_text("".join(lines[:5]), encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return str(path)


def metrics(run):
    with pathlib.Path(run, "metrics.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def assert_close(ours, expected):
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert one.pop("split") == other.pop("split")
        assert one == pytest.approx(other, rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_two_workers_have_the_losses_of_one_process(recipe):
    """Also with BLEU and the export, which only the first worker computes."""
    configs = runpy.run_path(LAUNCHER)["cluster_configs"](2)
    # Files of the second worker have another mode.
    workers = [
        subprocess.Popen(
            [COMMAND, "train", recipe, "--run", "two"],
            env={**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "-1"},
            umask=umask,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for config, umask in zip(configs, (0o022, 0o077), strict=True)
    ]
    try:
        assert main(["train", recipe, "--run", "one"]) == 0
        (chief_says, progress), (says, complains) = (worker.communicate() for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], progress + complains
    assert "2 workers with 2 CPUs" in progress
    assert "phrases" in chief_says
    assert (says, complains) == ("", "")

    assert_close(metrics("two"), metrics("one"))
    result, expected = (
        json.loads(pathlib.Path(run, "result.json").read_text()) for run in ("two", "one")
    )
    assert result["validation"] == pytest.approx(expected["validation"], rel=1e-5)
    assert result["best"] == pytest.approx(expected["best"], rel=1e-5)
    by_second = [
        str(path) for path in pathlib.Path("two").rglob("*") if path.stat().st_mode & 0o077 == 0
    ]
    assert by_second == []


def launch(recipe, run, *options):
    """Starts the launcher with two workers."""
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), *options, "train", recipe, "--run", run],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def pids(launcher):
    """Returns the processes of the workers, which the launcher prints first."""
    line = launcher.stderr.readline()
    match = re.fullmatch(r"Workers are the processes (\d+), (\d+)\.\n", line)
    assert match, line + launcher.stderr.read()
    return [int(pid) for pid in match.groups()]


def wait_for(run, step, launcher):
    while not pathlib.Path(run, "checkpoints", f"step_{step:08d}").exists():
        assert launcher.poll() is None, launcher.stderr.read()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_job_whose_worker_is_killed_equals_an_undisturbed_one(recipe, lost):
    """SIGTERM to one worker stops both; kill -9 of one ends the other, and both are restarted."""
    undisturbed = launch(recipe, "undisturbed", "--workers", "2")
    assert undisturbed.wait() == 0, undisturbed.stderr.read()

    asked = launch(recipe, "disturbed")
    asked_workers = pids(asked)
    wait_for("disturbed", 5, asked)
    os.kill(asked_workers[1 - lost], signal.SIGTERM)
    said = asked.stderr.read()
    assert asked.wait() == 143, said
    assert len(re.findall(r"saved at step \d+\.", said)) == 2

    killed = launch(recipe, "disturbed", "--restarts", "1")
    killed_workers = pids(killed)
    wait_for("disturbed", 15, killed)
    os.kill(killed_workers[lost], signal.SIGKILL)
    said = killed.stderr.read()
    assert killed.wait() == 0, said
    assert (
        f"keras-transformer: Worker {1 - lost} of 2 cannot reach the others: one of them has ended"
        in said
    )
    assert "Traceback" not in said
    assert f"Process {killed_workers[1 - lost]}: exit code 1\n" in said
    assert "Resuming from step 15." in said
    assert metrics("disturbed") == metrics("undisturbed")
