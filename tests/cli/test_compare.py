"""`keras-transformer compare`: output, exit codes, signals."""

import os
import signal
import sys
import threading
import time

import pytest

from keras_transformer.analysis import compare as package
from keras_transformer.analysis.compare import ComparisonStopped, running
from keras_transformer.analysis.compare.results import collect_results
from keras_transformer.cli.main import main
from tests.analysis.compare.made_up_runs import TOKENS_PER_STEP, write_run


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Runs the command with made-up runs; returns the exit code and arguments of `compare`."""
    monkeypatch.chdir(tmp_path)
    asked = {}

    def made_up(comparison, output, *, report):
        asked.update(comparison=comparison, output=output)
        for model in comparison.models:
            for seed in comparison.seeds:
                if (model, seed) not in asked.get("failing", ()):
                    write_run(output, model, seed, exact_matches={8: 1.0, 16: 0.5})
        recipe = next(iter(comparison.recipes().values()))
        plan = {"tokens_per_step": TOKENS_PER_STEP}
        return collect_results(comparison, recipe, plan, output)

    monkeypatch.setattr(package, "compare", made_up)

    def run(*arguments, **more):
        asked.update(more)
        return main(["compare", *arguments]), asked

    return run


def test_table_goes_to_standard_output(compare, capsys):
    exit_code, asked = compare("quickstart", "--models", "transformer,rotary", "--seeds", "1,2")
    assert exit_code == 0
    assert str(asked["output"]) == "comparisons/dates"
    assert asked["comparison"].seeds == (1, 2)
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if "rotary" in line)
    assert row.split("  ")[0] == "rotary"
    assert "0.5000 ± 0.0000" in row
    assert "50.0 ± 0.0%" in row
    assert printed.endswith(
        "Saved: comparisons/dates/comparison.md, comparison.json and comparison.png\n"
    )


def test_failed_run_is_exit_code_1(compare):
    failing = [("transformer", 2)]
    exit_code, _ = compare(
        "quickstart", "--models", "transformer", "--seeds", "1,2", failing=failing
    )
    assert exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("quickstart --models transformer,,rotary", "`--models` must be different names"),
        ("quickstart --models rotary,rotary", "`--models` must be different names"),
        (
            "quickstart --models rotary --seeds 1,x",
            "`--seeds` must be whole numbers",
        ),
        ("quickstart --models rotary --seeds 1,-2", "`seeds` must be a whole number of at least 0"),
        ("quickstart --models rotary --tokens 0", "`budget.tokens` must be null or a whole"),
        ("quickstart --models rotary --set x", "--set x: must have the form key=value"),
        ("nowhere.yaml", "nowhere.yaml: no such file"),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(compare, capsys, arguments, message):
    exit_code, asked = compare(*arguments.split())
    assert exit_code == 2
    assert asked == {}
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith(f"keras-transformer: {message}")
    assert complaint.count("\n") == 1


def test_exit_code_of_a_stage_is_that_of_the_command(monkeypatch):
    def stopped(*_, **__):
        raise ComparisonStopped(143)

    monkeypatch.setattr(package, "compare", stopped)
    assert main(["compare", "quickstart", "--models", "rotary"]) == 143


WAITING = """
import pathlib, signal, sys, time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
pathlib.Path("ready").touch()
time.sleep(60)
"""


@pytest.fixture
def received():
    """The SIGTERMs that this process itself has received."""
    numbers = []
    old = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, old)


def test_signal_is_passed_on_to_the_stage_whose_end_is_awaited(monkeypatch, tmp_path, received):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "command_line", lambda: [sys.executable, "-c", WAITING])

    def send():
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    assert running.run_stage("run", "nowhere") == 143
    sender.join()
    assert received == []
    os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGTERM]  # afterwards this process handles signals again


@pytest.mark.parametrize("ending", ["import signal; signal.pause()", "print(input())"])
def test_signal_ends_a_stage_that_does_not_handle_it(monkeypatch, received, ending):
    """As during the import of TensorFlow: the next run must not start."""
    code = f"import os, signal; os.kill(os.getppid(), signal.SIGTERM); {ending}"
    monkeypatch.setattr(running, "command_line", lambda: [sys.executable, "-c", code])
    assert running.run_stage("run", "nowhere") == 143
    assert received == []


def test_killed_stage_has_failed(monkeypatch):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(running, "command_line", lambda: [sys.executable, "-c", code])
    assert running.run_stage("run", "nowhere") == 1
