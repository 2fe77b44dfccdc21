"""`keras-transformer bench`, with shell scripts for peers and measurements that are made up."""

import fcntl
import json
import signal
import subprocess
import sys
import time

import pytest

from keras_transformer.cli.main import main
from tests.bench.fake_peers import FakeMeasure, make_peers, our_row
from training.benchmarks.processes import MeasurementError, Processes


@pytest.fixture
def measure(monkeypatch):
    """What stands in for the processes that would measure."""
    fake = FakeMeasure(300.0)
    monkeypatch.setattr(Processes, "measure", lambda self, *args, **more: fake(*args, **more))
    return fake


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_ours_alone_are_json_lines_and_tables(measure, capsys):
    assert main(["bench", "--threads", "1", "--what", "train"]) == 0
    printed = capsys.readouterr()
    peak, *rows = lines(printed.out)
    assert peak["value"] == 300
    assert [row["contender"] for row in rows] == [
        "keras_transformer loop",
        "keras_transformer fit",
    ]
    assert "train tiny, batch 4096tok, 1 thread" in printed.err
    (_, _, settings), _ = measure.asked[2:]
    assert settings == {
        "batches": 6,
        "config": "tiny",
        "data": None,
        "repeats": 3,
        "threads": 1,
        "way": "loop",
    }


def test_peers_are_measured_in_turn_and_compared(measure, tmp_path, capsys):
    peers = make_peers(tmp_path / "peers")
    command = f"bench --what train --config base --threads 1 --peers {peers} --rounds 3 --peak 100"
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    rows = lines(printed.out)
    assert sorted({row["round"] for row in rows}) == [1, 2, 3]
    assert "JoeyNMT is left out" in printed.err
    assert "OpenNMT-tf is left out, exit code 3: ImportError: no such module\n" in printed.err
    row = next(line for line in printed.err.splitlines() if "HF Marian" in line and "│" in line)
    cells = [cell.strip() for cell in row.split("│")[1:-1]]
    # Half as fast as the others in its first round.
    assert cells[:4] == ["HF Marian", "100 (50–100)", "3.00 (3.00–6.00)", "3.00 (3.00–6.00)"]
    assert cells[4:] == ["25.0%", "77 MB"]
    assert measure.asked[0][2]["data"] == str(peers / "data")


def test_all_that_fail_are_exit_code_1(monkeypatch, capsys):
    def fail(self, what, environment=None, **settings):
        raise MeasurementError("exit code 1: MemoryError")

    monkeypatch.setattr(Processes, "measure", fail)
    assert main(["bench", "--what", "train", "--peak", "100"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "keras_transformer fit is left out, exit code 1: MemoryError" in printed.err
    assert main(["bench", "--what", "train"]) == 1
    assert capsys.readouterr().err == "keras-transformer: exit code 1: MemoryError\n"


def test_start_is_measured_with_the_model_that_is_given(measure, monkeypatch, tmp_path, capsys):
    asked = []

    def start(export, processes, repeats, config):
        asked.append((export, repeats))
        names = ("keras_transformer translate", "bare import and load")
        return [our_row(1.0, task="start", contender=name) for name in names]

    monkeypatch.setattr("training.benchmarks.start_measurement.measure_start", start)
    command = f"bench --what start --rounds 2 --repeats 4 --model {tmp_path}"
    assert main(command.split()) == 0
    assert asked == [(str(tmp_path), 4)] * 2
    printed = capsys.readouterr()
    assert [row["round"] for row in lines(printed.out)] == [1, 1, 2, 2]
    assert "seconds to the first line" in printed.err
    assert measure.asked == []


def test_scaling_writes_rows_and_picture(monkeypatch, tmp_path, capsys):
    def rows(*arguments, **settings):
        for size in (1, 10, 100):
            yield {
                "task": "scaling_batch",
                "metric": "ms_per_step",
                "x": size,
                "value": 7.0 * size,
                "added_mb": size,
            }

    monkeypatch.setattr("training.benchmarks.scaling.measure_curves", rows)
    monkeypatch.setattr("training.benchmarks.scaling.measure_workers", lambda *_, **__: [])
    output = tmp_path / "new" / "growth"
    assert main(["bench", "--scaling", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    kept = lines((output / "scaling.jsonl").read_text())
    assert kept == lines(printed.out)
    assert kept[-1]["value"] == kept[-1]["added_mb"] == 1.0
    assert (output / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert printed.err == f"Saved: {output / 'scaling.jsonl'} and {output / 'scaling.png'}\n"


def test_attention_writes_rows_and_picture(monkeypatch, tmp_path, capsys):
    asked = []

    def measure(self, what, *, mechanism, length, **settings):
        asked.append((what, mechanism, length))
        row = {"task": "attention", "mechanism": mechanism, "metric": "seconds"}
        return {**row, "value": 1e-3 * length, "added_mb": 0.1 * length}

    monkeypatch.setattr(Processes, "measure", measure)
    command = f"bench --attention --lengths 2048 4096 --mechanisms local --output {tmp_path}"
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert asked == [("attention", "local", 2048), ("attention", "local", 4096)]
    kept = lines((tmp_path / "attention.jsonl").read_text())
    assert kept == lines(printed.out)
    assert kept[-1]["value"] == kept[-1]["added_mb"] == 1.0
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert printed.err == f"Saved: {tmp_path}/attention.jsonl and {tmp_path}/attention.png\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--attention --lengths 0", "--lengths must be whole numbers of at least 1; got 0."),
        ("--attention --mechanisms bigbird", "`--mechanisms` must be one of 'a"),
        ("--rounds 0", "`--rounds` must be a whole number of at least 1; got 0."),
        ("--threads 4096", "--threads is 4096; cores to run on: "),
        ("--beams 4 0", "--beams must be whole numbers of at least 1; got 0."),
        ("--peak 0", "`--peak` must be a finite number above 0; got 0.0."),
        ("--peers nowhere", "nowhere: common.py is not there. Give the folder that the peers'"),
        ("--data nowhere", "nowhere: train.npz is not there. Give the folder `data` of the one"),
        (
            "--contenders Marian",
            "No contender is called 'Marian'; there are keras_transformer loop",
        ),
        ("--scaling --output /dev/null/x", "--output /dev/null/x: cannot be a directory: "),
        ("--what start --model nowhere", "nowhere: holds no saved_model.pb. Give the directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, measure, capsys):
    assert main(["bench", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"keras-transformer: {message}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_measurement_is_made_by_the_command_itself(monkeypatch, capsys):
    """Training in a process that is prepared as `train` prepares its own, decoding not."""
    seen = []
    monkeypatch.setattr(
        "keras_transformer._utils.process.prepare_process", lambda: seen.append("prepared")
    )
    monkeypatch.setattr(
        "training.benchmarks.measure.measure", lambda what, settings: {what: settings}
    )
    assert main(["bench", "--measure", "train", '{"config": "tiny"}']) == 0
    assert json.loads(capsys.readouterr().out) == {"train": {"config": "tiny"}}
    assert seen == ["prepared"]
    assert main(["bench", "--measure", "decode", "{}"]) == 0
    assert seen == ["prepared"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_measurement_too(number, tmp_path):
    (tmp_path / "measures.py").write_text(
        "import fcntl, pathlib, time\n"
        "alive = open('alive', 'w')\n"
        "fcntl.flock(alive, fcntl.LOCK_EX)\n"
        "pathlib.Path('begun').touch()\n"
        "time.sleep(30)\n"
        "pathlib.Path('ended').touch()\n"
    )
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a shell may have it ignored\n"
        "from training.benchmarks.processes import Processes\n"
        "from keras_transformer.cli import bench, main\n"
        "bench.compare = lambda _: Processes(1).run([sys.executable, 'measures.py'])\n"
        "main.main(['bench'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait() == 128 + number
    with open(tmp_path / "alive", "w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)  # waits for the process that has it
    assert not (tmp_path / "ended").exists()
