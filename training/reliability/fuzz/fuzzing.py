"""Fuzzing of targets in child processes: with coverage by atheris, or by random changes."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from training.reliability.fuzz.findings import Counts, Recorder
from training.reliability.fuzz.mutation import mutations
from training.reliability.fuzz.targets import TARGETS, Target

#: Longest time of one execution; a longer one is a hang.
HANG_SECONDS = 10
MEMORY_MB = 4096
# A process ends after this number of executions, because TensorFlow keeps what it has made.
_RUNS_OF_A_PROCESS = 200_000
# A target that crashes so often has one bug that must be fixed first.
_MOST_CRASHES = 5


@dataclasses.dataclass(frozen=True)
class FuzzResult:
    """Result of fuzzing a target.

    Attributes:
        target: Name of the target.
        executions: Number of inputs that were read.
        accepted: Number of inputs without a mistake.
        findings: Files with inputs that ended in an error other than `UserError`.
        crashes: Files with inputs that ended the process: signals, hangs, too much memory.
        seconds: Wall-clock time.
    """

    target: str
    executions: int
    accepted: int
    findings: tuple[pathlib.Path, ...]
    crashes: tuple[pathlib.Path, ...]
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings and not self.crashes


def fuzz(name: str, directory: pathlib.Path, runs: int, seconds: float) -> FuzzResult:
    """Fuzzes a target with coverage until a number of executions or a time is reached.

    Args:
        name: Name of the target.
        directory: Directory for the corpus, counts and findings, with those of earlier calls.
        runs: Number of executions, those of earlier calls included.
        seconds: Maximum time.
    """
    start = time.monotonic()
    recorder = Recorder(directory / name)
    while (left := runs - recorder.counts.executions) > 0:
        seconds_left = seconds - (time.monotonic() - start)
        if seconds_left < 1 or len(_crashes(recorder)) >= _MOST_CRASHES:
            break
        _run_worker(name, recorder.directory, min(left, _RUNS_OF_A_PROCESS), seconds_left)
    return _result(name, recorder, time.monotonic() - start)


def _run_worker(name: str, directory: pathlib.Path, runs: int, seconds: float) -> None:
    """Runs one process of libFuzzer; its crashes leave an input in the directory."""
    target = TARGETS[name]
    corpus, words = directory / "corpus", directory / "words"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed_{number}").write_bytes(seed)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    command = [sys.executable, "-m", "training.reliability.fuzz.worker", name, str(directory)]
    command += [f"-runs={runs}", f"-max_total_time={max(1, int(seconds))}"]
    command += [f"-timeout={HANG_SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    command += [f"-dict={words}", f"-max_len={target.max_bytes}", "-verbosity=0"]
    command += [f"-artifact_prefix={directory}/", str(corpus)]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(seconds + 60 + 2 * HANG_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = -signal.SIGKILL
    # libFuzzer writes the input of a crash, unless the process could not even start.
    if code and not _crashes_in(directory):
        last = (directory / "log").read_bytes()[-2000:]
        (directory / f"crash-exit-{code}").write_bytes(last)


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _crashes_in(directory: pathlib.Path) -> list[pathlib.Path]:
    kinds = ("crash-*", "timeout-*", "oom-*", "leak-*")
    return sorted(path for kind in kinds for path in directory.glob(kind))


def _crashes(recorder: Recorder) -> list[pathlib.Path]:
    return _crashes_in(recorder.directory)


def _result(name: str, recorder: Recorder, seconds: float) -> FuzzResult:
    counts: Counts = recorder.counts
    crashes = tuple(_crashes(recorder))
    return FuzzResult(name, *counts, tuple(recorder.findings), crashes, seconds)


def run_mutations(name: str, directory: pathlib.Path, runs: int) -> FuzzResult:
    """Reads the seeds of a target and random changes of them, in this process, without a guide.

    Args:
        name: Name of the target.
        directory: Directory for counts and findings.
        runs: Number of executions.
    """
    start = time.monotonic()
    target = TARGETS[name]
    recorder = Recorder(directory / name)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as files:
        reader = target.make(pathlib.Path(files))
        for data in _inputs(target, runs):
            recorder.run(reader, data)
    return _result(name, recorder, time.monotonic() - start)


def _inputs(target: Target, runs: int) -> Iterator[bytes]:
    return mutations(target.seeds(), target.words, runs, target.max_bytes)
