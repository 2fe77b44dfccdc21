"""Processes that measure, one after the other, on the same cores."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_transformer._utils.process import available_cores

#: Root directory of the project, in which `python -m training.benchmarks` can be run.
ROOT = pathlib.Path(__file__).parents[2]
_PEER_SCRIPTS = pathlib.Path(__file__).parent / "peers"

# The variables that decide how many threads the measured libraries start.
_THREAD_VARIABLES = (
    "THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
_SETTINGS = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}
_LONGEST_REASON = 300


class MeasurementError(RuntimeError):
    """A measuring process has ended without a result. The message is one line."""


class Processes:
    """Runs processes on a number of cores, always the same ones.

    Args:
        threads: Integer. Number of cores and threads of each process.
        first_core: Integer. Index of the first of these cores. Default 0.

    >>> Processes(threads=1).run([sys.executable, "-c", "print('{\\"value\\": 3}')"])
    [{'value': 3}]
    """

    def __init__(self, threads: int, first_core: int = 0) -> None:
        self.threads = threads
        self._prefix = _pin_to(available_cores()[first_core : first_core + threads])

    def measure(
        self, name: str, environment: Mapping[str, str] | None = None, **settings: Any
    ) -> Any:
        """Runs a measurement in a process of its own and returns its row, or None.

        Args:
            name: name of the measurement, see `training.benchmarks.command.measure`.
            environment: further environment variables.
            **settings: keyword arguments of the measurement.
        """
        command = [sys.executable, "-m", "training.benchmarks"]
        rows = self.run([*command, "--measure", name, json.dumps(settings)], environment, ROOT)
        return rows[-1] if rows else None

    @staticmethod
    def measure_together(
        several: Sequence["Processes"],
        name: str,
        environments: Sequence[Mapping[str, str]],
        **settings: Any,
    ) -> list[Any]:
        """Runs a measurement in several processes at once and returns the row of each, or None.

        Args:
            several: the `Processes` of each.
            name: name of the measurement.
            environments: further environment variables of each.
            **settings: keyword arguments of the measurement.
        """
        with concurrent.futures.ThreadPoolExecutor(len(several)) as pool:
            running = [
                pool.submit(processes.measure, name, environment, **settings)
                for processes, environment in zip(several, environments, strict=True)
            ]
            return [each.result() for each in running]

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Runs a command and returns the JSON objects among the lines that it prints.

        Args:
            command: program and arguments.
            environment: further environment variables.
            directory: working directory. Default: the current one.

        Raises:
            MeasurementError: if the exit code is not 0, with the last line of standard error.
        """
        try:
            result = subprocess.run(
                self.pinned(command),
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

    def pinned(self, command: Sequence[str]) -> list[str]:
        """Returns a command that runs on the cores only."""
        return [*self._prefix, *command]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Returns the environment of a process: this one's, the number of threads, and `more`."""
        threads = dict.fromkeys(_THREAD_VARIABLES, str(self.threads))
        return {**os.environ, **_SETTINGS, **threads, **(more or {})}


def run_peer_script(
    processes: Processes,
    peers: pathlib.Path,
    environment: str,
    script: str,
    arguments: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Runs a script of `training/benchmarks/peers` and returns the rows that it prints.

    Args:
        processes: the `Processes` that run it.
        peers: directory that the peers' setup.sh has filled.
        environment: name of the virtual environment in it.
        script: name of the script.
        arguments: arguments of the script.
        variables: further environment variables.
    """
    python = peers / environment / "bin" / "python"
    command = [str(python), str(_PEER_SCRIPTS / script), *arguments]
    return processes.run(command, {**(variables or {}), "PEERS": str(peers)})


def _pin_to(cores: Sequence[int]) -> list[str]:
    """Returns the start of a command that keeps it on cores, if the system has `taskset`."""
    if shutil.which("taskset") is None:
        return []
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # printed by a library


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else "no message"
