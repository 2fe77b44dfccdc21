"""Measurement of the time from starting `keras-transformer translate` to its first line."""

import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import command_line
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.timing import Row

# The shortest program that answers a line with an export.
_BARE = """
import sys
import tensorflow as tf
import tensorflow_text
signature = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
line = sys.stdin.readline().rstrip("\\n")
print(signature(text=tf.constant([line]))["text"].numpy()[0].decode(), flush=True)
"""
OURS, BARE = "keras_transformer translate", "bare import and load"
_LINE = "Two dogs are playing in the snow.\n"


def measure_start(
    export: str | os.PathLike[str], processes: Processes, repeats: int, config: str
) -> list[Row]:
    """Returns two rows: of `translate`, and of a program that only imports, loads and answers.

    They are started in turn. The time is wall-clock time for any number of threads, because that is
    what a person waits for.

    Args:
        export: directory of an export or of one of its versions.
        processes: the `Processes` whose cores and threads are used.
        repeats: how often each is started.
        config: name of the model, for the rows.
    """
    version = str(find_version(export))
    commands = {
        OURS: [*command_line(), "translate"],
        BARE: [sys.executable, "-c", _BARE],
    }
    starts = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            starts[name].append(_time_first_line([*command, version], processes))
    return [_start_row(name, each, config, processes.threads) for name, each in starts.items()]


def find_version(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the directory of a SavedModel: `path` itself, or its highest version."""
    path = pathlib.Path(path)
    if (path / "saved_model.pb").is_file():
        return path
    versions = [each for each in path.glob("*/saved_model.pb") if each.parent.name.isdigit()]
    if not versions:
        raise UserError(
            "saved_model.pb is missing.", where=path, fix="Give the directory of an export."
        )
    return max(versions, key=lambda each: int(each.parent.name)).parent


def _time_first_line(command: Sequence[str], processes: Processes) -> tuple[float, float, float]:
    """Returns seconds to the first line, processor seconds of the process, and peak MB."""
    start = time.perf_counter()
    process = subprocess.Popen(
        processes.pinned(command),
        env=processes.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        try:
            process.stdin.write(_LINE.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass  # the exit code is checked below
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:  # a signal
        process.kill()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not line:
        raise MeasurementError(
            f"{command[0]} gave no answer, exit code {process.returncode}. Try: {command[0]} "
            f"translate {command[-1]}"
        )
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _start_row(
    name: str, starts: Sequence[tuple[float, float, float]], config: str, threads: int
) -> Row:
    seconds, processor, memory = zip(*starts, strict=True)
    return {
        "peer": name,
        "task": "start",
        "config": config,
        "batch": 1,
        "metric": "seconds",
        "value": round(statistics.median(seconds), 3),
        "spread": [round(each, 3) for each in seconds],
        "cpu_seconds": round(statistics.median(processor), 3),
        "peak_rss_mb": round(max(memory)),
        "reps": len(starts),
        "threads": threads,
        "contender": name,
    }
