"""How long `keras-transformer translate` takes to its first line, beside a bare load."""

import os
import pathlib
import statistics
import subprocess
import sys
import time

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.process import command_line
from training.benchmarks.processes import MeasurementError

# The least that a program can do to answer a line with an export.
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


def measure_start(export, processes, repeats, config):
    """Returns two rows of JSON: ours, and a process that imports and loads and nothing else.

    They are started in turn. The seconds are those of the clock, from the start of a process to its
    first line of output, on any number of threads: a person waits by the clock.

    Args:
        export: a directory of versions, or of one.
        processes: the `Processes` whose cores and threads are used.
        repeats: how often each is started.
        config: the name of the model, for the rows.
    """
    export = find_version(export)
    commands = {
        OURS: [*command_line(), "translate"],
        BARE: [sys.executable, "-c", _BARE],
    }
    starts = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            starts[name].append(_time_first_line([*command, str(export)], processes))
    return [_start_row(name, each, config, processes.threads) for name, each in starts.items()]


def find_version(path):
    """The directory of the SavedModel: `path` itself, or the highest of the versions in it."""
    path = pathlib.Path(path)
    if (path / "saved_model.pb").is_file():
        return path
    versions = [each for each in path.glob("*/saved_model.pb") if each.parent.name.isdigit()]
    if not versions:
        raise UserError(f"{path}: holds no saved_model.pb. Give the directory of an export.")
    return max(versions, key=lambda each: int(each.parent.name)).parent


def _time_first_line(command, processes):
    """Returns the seconds to the first line, those of the processor in all, and the peak in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(
        processes.pinned(command),
        env=processes.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.stdin.write(_LINE.encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # its exit code tells
    line = process.stdout.readline()
    seconds = time.perf_counter() - start
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not line:
        raise MeasurementError(
            f"{command[0]} gave no answer, exit code {process.returncode}. Try: {command[0]} "
            f"translate {command[-1]}"
        )
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _start_row(name, starts, config, threads):
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
