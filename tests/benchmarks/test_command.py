"""`python -m training.benchmarks`, with replacements for peers and measurements."""

import fcntl
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.benchmarks.fake_peers import FakeMeasure, make_peers, our_row
from training.benchmarks.command import main
from training.benchmarks.processes import ROOT, MeasurementError, Processes


@pytest.fixture
def measure(monkeypatch):
    """Replacement for the measuring processes."""
    fake = FakeMeasure(300.0)
    monkeypatch.setattr(Processes, "measure", lambda self, *given, **more: fake(*given, **more))
    return fake


def read_rows(text):
    return [json.loads(line) for line in text.splitlines()]


def test_without_peers_rows_and_tables_are_printed(measure, capsys):
    assert main(["--threads", "1", "--what", "train"]) == 0
    printed = capsys.readouterr()
    peak, *rows = read_rows(printed.out)
    assert peak["value"] == 300
    assert [row["contender"] for row in rows] == [
        "keras_transformer loop",
        "keras_transformer fit",
    ]
    assert "train tiny, batch 4096tok, 1 thread" in printed.err
    (_, _, settings), _ = measure.calls[2:]
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
    command = f"--what train --config base --threads 1 --peers {peers} --rounds 3 --peak 100"
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    rows = read_rows(printed.out)
    assert sorted({row["round"] for row in rows}) == [1, 2, 3]
    assert "JoeyNMT is left out" in printed.err
    assert "exit code 3: ImportError: no such module\n" in printed.err
    row = next(line for line in printed.err.splitlines() if line.startswith("HF Marian"))
    # In the first round it was half as fast.
    assert row.count("3.00 (3.00–6.00)") == 2
    for cell in ("100 (50–100)", "25.0%", "77 MB"):
        assert cell in row
    assert measure.calls[0][2]["data"] == str(peers / "data")


def test_exit_code_is_1_if_everything_fails(monkeypatch, capsys):
    def fail(self, name, environment=None, **settings):
        raise MeasurementError("exit code 1: MemoryError")

    monkeypatch.setattr(Processes, "measure", fail)
    assert main(["--what", "train", "--peak", "100"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "keras_transformer fit" in printed.err
    assert "exit code 1: MemoryError" in printed.err
    assert main(["--what", "train"]) == 1
    assert capsys.readouterr().err == "benchmarks: exit code 1: MemoryError\n"


def test_start_is_measured_with_the_given_model(measure, monkeypatch, tmp_path, capsys):
    calls = []

    def start(export, processes, repeats, config):
        calls.append((export, repeats))
        names = ("keras_transformer translate", "bare import and load")
        return [our_row(1.0, task="start", contender=name) for name in names]

    monkeypatch.setattr("training.benchmarks.command.measure_start", start)
    command = f"--what start --rounds 2 --repeats 4 --model {tmp_path}"
    assert main(command.split()) == 0
    assert calls == [(str(tmp_path), 4)] * 2
    printed = capsys.readouterr()
    assert [row["round"] for row in read_rows(printed.out)] == [1, 1, 2, 2]
    assert "seconds to the first line" in printed.err
    assert measure.calls == []


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

    monkeypatch.setattr("training.benchmarks.training_growth.measure_curves", rows)
    monkeypatch.setattr("training.benchmarks.training_growth.measure_workers", lambda *_, **__: [])
    output = tmp_path / "new" / "growth"
    assert main(["--scaling", "--output", str(output)]) == 0
    printed = capsys.readouterr()
    kept = read_rows((output / "scaling.jsonl").read_text())
    assert kept == read_rows(printed.out)
    assert kept[-1]["value"] == kept[-1]["added_mb"] == 1.0
    assert (output / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert str(output / "scaling.jsonl") in printed.err
    assert str(output / "scaling.png") in printed.err


def test_attention_writes_rows_and_picture(monkeypatch, tmp_path, capsys):
    calls = []

    def measure(self, name, *, mechanism, length, **settings):
        calls.append((name, mechanism, length))
        row = {"task": "attention", "mechanism": mechanism, "metric": "seconds"}
        return {**row, "value": 1e-3 * length, "added_mb": 0.1 * length}

    monkeypatch.setattr(Processes, "measure", measure)
    command = f"--attention --lengths 2048 4096 --mechanisms local --output {tmp_path}"
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert calls == [("attention", "local", 2048), ("attention", "local", 4096)]
    kept = read_rows((tmp_path / "attention.jsonl").read_text())
    assert kept == read_rows(printed.out)
    assert kept[-1]["value"] == kept[-1]["added_mb"] == 1.0
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert f"{tmp_path}/attention.jsonl and {tmp_path}/attention.png" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--attention --lengths 0", "`--lengths` must be .* at least 1; got 0"),
        ("--attention --mechanisms bigbird", "`--mechanisms` must be .*'big_bird'"),
        ("--rounds 0", "`--rounds` must be .* at least 1; got 0"),
        ("--threads 4096", "--threads is 4096"),
        ("--beams 4 0", "`--beams` must be .* at least 1; got 0"),
        ("--peak 0", "`--peak` must be .* above 0; got 0"),
        ("--peers nowhere", r"nowhere: data/train\.npz .*setup\.sh"),
        ("--data nowhere", r"nowhere: train\.npz .*setup\.sh"),
        ("--contenders Marian", "--contenders: .*keras_transformer loop.* got 'Marian'"),
        ("--scaling --output /dev/null/x", "--output /dev/null/x: "),
        ("--what start --model nowhere", r"nowhere: saved_model\.pb is missing"),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(arguments, message, measure, capsys):
    assert main(arguments.split()) == 2
    printed = capsys.readouterr()
    assert re.match(f"benchmarks: {message}", printed.err)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_training_is_measured_in_a_prepared_process_and_decoding_is_not(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(
        "keras_transformer._utils.process.prepare_process", lambda: seen.append("prepared")
    )
    monkeypatch.setattr(
        "training.benchmarks.command.measure", lambda name, settings: {name: settings}
    )
    assert main(["--measure", "train", '{"config": "tiny"}']) == 0
    assert json.loads(capsys.readouterr().out) == {"train": {"config": "tiny"}}
    assert seen == ["prepared"]
    assert main(["--measure", "decode", "{}"]) == 0
    assert seen == ["prepared"]


def test_help_is_printed_by_the_module():
    command = [sys.executable, "-m", "training.benchmarks", "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("usage: python -m training.benchmarks")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_measuring_process_too(number, tmp_path):
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
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a shell may ignore it\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "from training.benchmarks import command\n"
        "from training.benchmarks.processes import Processes\n"
        "command.compare = lambda _: Processes(1).run([sys.executable, 'measures.py'])\n"
        "sys.exit(command.main([]))\n"
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
