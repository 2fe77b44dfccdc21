"""The peers' scripts: their shared module with a library that does nothing, and their names."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.benchmarks.small_workload import write_short_sentences
from training.benchmarks import comparison
from training.benchmarks.processes import ROOT

PEERS = ROOT / "training" / "benchmarks" / "peers"
# Decoding returns three tokens and END, or as many as are forced.
SCRIPT = """
import common as c

class Library:
    steps = 0

    def run(self, batches):
        self.steps += len(batches)

    def translate(self, rows):
        assert all(row[-1] == c.END for row in rows)
        ids = [c.START, 5, c.PADDING, 6, 7, c.END, 8]
        return [c.until_end((ids * 5)[:c.MAX_LENGTH]) for _ in rows]

library = Library()
if "--beams" in __import__("sys").argv:
    c.measure_decoding("nothing", c.decoding_options().parse_args(), library.translate, version="1")
else:
    c.measure_training("nothing", c.training_options().parse_args(), library.run, version="1")
"""


@pytest.fixture
def peers(tmp_path: pathlib.Path) -> pathlib.Path:
    write_short_sentences(tmp_path / "data")
    return tmp_path


def run_script(peers: pathlib.Path, arguments: str, **variables: str) -> dict:
    """Runs the script with this Python and returns its row."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments.split()],
        env={**os.environ, "PEERS": str(peers), "PYTHONPATH": str(PEERS), **variables},
        cwd=peers,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_training_row_of_a_peer_has_its_name_and_repeats(peers):
    row = run_script(peers, "--batches 1 --repeats 2", THREADS="1")
    assert (row["peer"], row["task"], row["config"]) == ("nothing", "train", "tiny")
    assert (row["reps"], row["n_batches"], row["version"]) == (2, 1, "1")
    assert row["mfu"] is None


def test_decoding_row_of_a_peer_counts_its_tokens(peers):
    row = run_script(peers, "--beams 4 --batch-size 8 --sentences 20 --repeats 2", THREADS="2")
    assert (row["task"], row["batch"], row["n"], row["mean_len"]) == ("infer_beam4", 8, 20, 3)
    assert "forced_len" not in row


def test_forced_length_counts_every_token(peers):
    row = run_script(peers, "--beams 1 --sentences 5", FORCED_LENGTH="16")
    assert (row["task"], row["forced_len"], row["mean_len"]) == ("infer_greedy", 16, 16)


def test_common_module_needs_numpy_only():
    """The environments of the peers have neither this package's TensorFlow nor its Keras."""
    code = (
        "import sys\n"
        "for name in ('tensorflow', 'keras', 'tensorflow_text'): sys.modules[name] = None\n"
        "import common, training.benchmarks.matrix_speed"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PEERS": "nowhere", "PYTHONPATH": str(PEERS)},
        check=True,
    )


def test_every_contender_has_a_script_and_an_environment():
    contenders = [*comparison._TRAINING, *comparison._DECODING]
    setup = (PEERS / "setup.sh").read_text()
    for contender in contenders:
        if not contender.is_ours:
            assert (PEERS / contender.script).is_file()
            assert f"environment {contender.venv} " in setup


def test_sine_positions_have_unit_circles(monkeypatch):
    monkeypatch.setenv("PEERS", "nowhere")
    monkeypatch.syspath_prepend(str(PEERS))
    import common

    positions = common.sine_positions(5, 8)
    np.testing.assert_allclose(positions[:, :4] ** 2 + positions[:, 4:] ** 2, 1, atol=1e-6)
    np.testing.assert_allclose(positions[0], [0] * 4 + [1] * 4)
