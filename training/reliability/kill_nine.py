"""Kills a short training repeatedly and compares its result with that of an undisturbed one.

  python training/reliability/kill_nine.py
  python training/reliability/kill_nine.py --kills 3

One training is not disturbed. Another one, with the same recipe, is killed with SIGKILL (kill -9)
at random moments, three of four times while a checkpoint is being written; it is also interrupted
with SIGTERM and with Ctrl-C. The same command resumes it each time. In the end all checkpoints
(weights and optimizer), the final weights, the metrics and the events of TensorBoard must be
identical bit for bit. The exit code is 1 if anything differs. Files are kept only with --directory.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import h5py

from keras_transformer.trainer.recipe_file import write_yaml

STEPS_BETWEEN_CHECKPOINTS = 2
# Maximum number of checkpoints of a start before its signal.
MOST_SAVES = 3
# A start makes a checkpoint within this time, even on a slow machine.
LONGEST_START_SECONDS = 600

RECIPE = {
    "name": "reversed",
    "task": "translation",
    "text": {"tokenizer": "bytes"},
    "model": {
        "size": "tiny",
        "hidden_dim": 32,
        "intermediate_dim": 64,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "max_length": 32,
        "dropout": 0.1,
    },
    "batches": {"tokens": 512, "max_length": 32, "max_buckets": 2, "accumulate": 2},
    "training": {"schedule": "constant", "learning_rate": 0.003, "ema": 0.99, "clip_norm": 1.0},
    "evaluation": {"every": 10, "sentences": 0},
    "checkpoints": {"every": STEPS_BETWEEN_CHECKPOINTS, "keep": 4, "average": 4},
    "tensorboard": {"every": 3, "attention": 0, "samples": 0, "projector": False},
    "export": {"enabled": False},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20, help="number of kills (default: 20)")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random moments (default: 1)"
    )
    parser.add_argument(
        "--directory", help="directory for all files, which must not exist (default: none is kept)"
    )
    options = parser.parse_args(arguments)
    # A shell that starts this in the background ignores Ctrl-C, also for child processes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kill_nine_") as temporary:
        directory = pathlib.Path(options.directory or f"{temporary}/runs")
        directory.mkdir(parents=True)
        return compare(directory, options.kills, random.Random(options.seed))


def compare(directory: pathlib.Path, kills: int, chance: random.Random) -> int:
    """Runs both trainings in a directory; returns the exit code."""
    recipe = write_recipe(directory, kills)
    alone, disturbed = (Run(recipe, directory / name) for name in ("alone", "disturbed"))
    print("Undisturbed …", flush=True)
    seconds = alone.to_its_end()
    print(f"Undisturbed: {seconds:.0f} s.\n")
    print(f"{'':>4}  {'signal':9}{'when':27}exit code  {'it left':19}resumed from", flush=True)
    for number, (stop, saves, limit) in enumerate(moments(kills, chance, seconds), start=1):
        if not disturbed.disturb(number, stop, saves, limit):
            print("The training ended before the last signal: it needs more steps.")
            return 1
    disturbed.to_its_end()
    print(f"{'':>4}  {'none':9}{'at its end':27}{0:>9}  {'':19}{disturbed.resumed_from()}\n")
    differences = list(differing(alone.directory, disturbed.directory))
    print(f"{disturbed.hits} of {kills} kills left a partly written checkpoint.")
    for line in differences:
        print(f"DIFFERENT: {line}")
    if not differences:
        print("Weights, optimizer, metrics and events are identical bit for bit.")
    return 1 if differences else 0


def moments(
    kills: int, chance: random.Random, seconds: float
) -> Iterator[tuple[signal.Signals, int, float]]:
    """Yields signals, each with the save in which, or the seconds after which, it is sent."""
    for number in range(1, kills + 1):
        if number % 4 == 0:
            yield signal.SIGKILL, MOST_SAVES, chance.uniform(0, seconds)
        else:
            yield signal.SIGKILL, chance.randint(1, MOST_SAVES), LONGEST_START_SECONDS
    yield signal.SIGTERM, 2, LONGEST_START_SECONDS
    yield signal.SIGINT, 1, LONGEST_START_SECONDS


def write_recipe(directory: pathlib.Path, kills: int) -> pathlib.Path:
    """Writes corpora and recipe; returns the recipe's path."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(3, 12))) for _ in range(300)]
    data = {"train": words[20:], "validation": words[:20]}
    for name, part in data.items():
        path = directory / f"{name}.tsv"
        path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in part))
        data[name] = str(path)
    steps = STEPS_BETWEEN_CHECKPOINTS * (MOST_SAVES * (kills + 2) + 4)
    recipe = {**RECIPE, "data": data, "training": {**RECIPE["training"], "steps": steps}}
    path = directory / "recipe.yaml"
    path.write_text(write_yaml(recipe))
    return path


class Run:
    """A training in its own process, started repeatedly with the same command."""

    def __init__(self, recipe: pathlib.Path, directory: pathlib.Path) -> None:
        self.directory = directory
        self.hits = 0
        self._checkpoints = directory / "checkpoints"
        self._log = directory.with_suffix(".log")
        self._command = [sys.executable, "-m", "keras_transformer.cli.main"]
        self._command += ["train", str(recipe), "--run", str(directory)]

    def to_its_end(self) -> float:
        """Runs the training to its end; returns the seconds."""
        start = time.monotonic()
        if self._start().wait() != 0:
            raise SystemExit(f"The training failed:\n{self._log.read_text()}")
        return time.monotonic() - start

    def disturb(self, number: int, stop: signal.Signals, saves: int, seconds: float) -> bool:
        """Starts the training and sends a signal; returns whether it was still running.

        Args:
            number: Number of the row.
            stop: The signal.
            saves: Number of the save of this start in which the signal is sent.
            seconds: Time after which it is sent if that save has not come.
        """
        before = self._partly_written()
        process = self._start()
        moment = self._wait(process, saves, seconds, before)
        if process.poll() is not None:
            return False
        process.send_signal(stop)
        exit_code = process.wait()
        expected = -stop if stop == signal.SIGKILL else 128 + stop
        if exit_code != expected:
            raise SystemExit(f"Exit code {exit_code}, not {expected}:\n{self._log.read_text()}")
        is_hit = bool(self._partly_written() - before)
        self.hits += is_hit
        print(
            f"{number:>4}  {stop.name:9}{moment:27}{exit_code:>9}  "
            f"{'partial checkpoint' if is_hit else '':19}{self.resumed_from()}",
            flush=True,
        )
        return True

    def resumed_from(self) -> str:
        """Returns the step from which the last start has resumed, by its own report."""
        lines = self._log.read_text().splitlines()
        said = [line for line in lines if line.startswith("Resuming from")]
        return said[0].removeprefix("Resuming from ").rstrip(".") if said else "the beginning"

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with self._log.open("w") as log:
            return subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def _partly_written(self) -> set[str]:
        """Returns names of checkpoints that are or were being written when a process was killed."""
        # A checkpoint that is being removed has a shorter suffix.
        return {path.name for path in self._checkpoints.glob(f".step_*.{'?' * 16}")}

    def _wait(
        self, process: subprocess.Popen[bytes], saves: int, seconds: float, seen: set[str]
    ) -> str:
        """Waits for the save, the time or the end of the process; returns which of them came."""
        end = time.monotonic() + seconds
        count = 0
        while process.poll() is None:
            new = self._partly_written() - seen
            seen, count = seen | new, count + len(new)
            if count >= saves:
                return f"in save {count} of this start"
            if time.monotonic() > end:
                return f"after {seconds:.1f} s"
            time.sleep(0.0005)
        return "at its end"


def differing(one: pathlib.Path, other: pathlib.Path) -> Iterator[str]:
    """Yields the differences of two runs."""
    names = sorted(str(path.relative_to(one)) for path in one.glob("checkpoints/*/tensors.*"))
    found = sorted(str(path.relative_to(other)) for path in other.glob("checkpoints/*/tensors.*"))
    # A kill can leave a checkpoint that is no longer needed.
    if not names or not set(names) <= set(found):
        yield f"checkpoints: {found}, not {names}"
        return
    for name in [*names, "metrics.jsonl"]:
        if (one / name).read_bytes() != (other / name).read_bytes():
            yield name
    weights = "model/model.weights.h5"
    if read_weights(one / weights) != read_weights(other / weights):
        yield weights
    for part in ("train", "validation"):
        if read_events(one / "tensorboard" / part) != read_events(other / "tensorboard" / part):
            yield f"tensorboard/{part}"


def read_weights(path: pathlib.Path) -> dict[str, bytes]:
    """Returns the bytes of each array by name; their positions in the file vary."""
    arrays: dict[str, bytes] = {}

    def keep(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(keep)
    return arrays


def read_events(directory: pathlib.Path) -> list[tuple[int, str, bytes]]:
    """Returns all values in event files, in order, without those that depend on the clock."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return [
        (event.step, value.tag, value.tensor.SerializeToString())
        for path in sorted(directory.glob("events.out.tfevents.*"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(record)]
        for value in event.summary.value
        if value.tag != "tokens_per_second"
    ]


if __name__ == "__main__":
    sys.exit(main())
