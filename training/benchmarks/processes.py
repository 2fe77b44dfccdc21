"""Starting one measurement after the other, each in a process of its own on the same cores."""

import concurrent.futures
import json
import os
import shutil
import subprocess

from keras_transformer._utils.process import available_cores, command_line

# What decides how many threads the libraries of all contenders start.
_THREAD_VARIABLES = (
    "THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
_LONGEST_REASON = 300


class MeasurementError(RuntimeError):
    """A process that measures has ended without a result; the message is one line."""


class Processes:
    """Runs processes on a number of cores, the same ones for all.

    Args:
        threads: how many cores and threads each has.
        first_core: how many of the cores there are come before them.

    >>> Processes(threads=1).run([sys.executable, "-c", "print('{\\"value\\": 3}')"])
    [{'value': 3}]
    """

    def __init__(self, threads, first_core=0):
        self.threads = threads
        self._prefix = _pin_to(available_cores()[first_core : first_core + threads])

    def measure(self, what, environment=None, **settings):
        """Runs a measurement of `training.benchmarks.measure`; returns its row, or None.

        It is the command itself that measures, with all that it sets before TensorFlow starts.
        """
        command = [*command_line(), "bench", "--measure", what, json.dumps(settings)]
        rows = self.run(command, environment)
        return rows[-1] if rows else None

    @staticmethod
    def measure_together(several, what, environments, **settings):
        """Runs a measurement in several processes at once; returns the row of each, or None.

        Args:
            several: the `Processes` of each.
            what, settings: see `measure`.
            environments: variables to set for each.
        """
        with concurrent.futures.ThreadPoolExecutor(len(several)) as pool:
            running = [
                pool.submit(processes.measure, what, environment, **settings)
                for processes, environment in zip(several, environments, strict=True)
            ]
            return [each.result() for each in running]

    def run(self, command, environment=None, directory=None):
        """Returns the JSON objects among the lines that a command prints.

        Args:
            command: a list.
            environment: variables to set beside those that all get.
            directory: where it runs.

        Raises:
            MeasurementError: with the last line of what it complained, if its exit code is not 0.
        """
        try:
            result = subprocess.run(
                [*self._prefix, *command],
                env=self.environment(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise MeasurementError(f"{command[0]} cannot be started: {error.strerror}") from error
        if result.returncode:
            raise MeasurementError(
                f"exit code {result.returncode}: {_last_line(result.stderr or result.stdout)}"
            )
        return list(_json_objects(result.stdout))

    def pinned(self, command):
        """A command that keeps to the cores."""
        return [*self._prefix, *command]

    def environment(self, more=None):
        """The environment of a process: this one's, the threads, and `more`."""
        threads = dict.fromkeys(_THREAD_VARIABLES, str(self.threads))
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        return {**os.environ, **quiet, **threads, **(more or {})}


def _pin_to(cores):
    """What stands before a command to keep it on cores; nothing where there is no such thing."""
    if shutil.which("taskset") is None:
        return []
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


def _json_objects(text):
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # a library's own words


def _last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else "it said nothing"
