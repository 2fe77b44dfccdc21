"""Runs a training for thousands of steps, then exports in a loop; memory and files must not grow.

  python -m training.reliability.long_run
  python -m training.reliability.long_run --steps 100000 --exports 200

The training evaluates, translates and saves a checkpoint every ten steps, so a minute of it has as
many of these events as a day of a large training. Memory and open files are measured at each
evaluation and after each export. Of each part, the first third is left out, in which caches fill.
The exit code is 1 if memory grows by more than --most-growth MB between the thirds that follow, or
if the number of open files grows.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from keras_transformer.export import TrainedModel, export_model
from keras_transformer.trainer import train
from keras_transformer.trainer.recipe_file import read_yaml, write_yaml
from training.reliability.kill_nine import RECIPE, write_recipe

EVERY = 10


class Usage(NamedTuple):
    """Resources of this process.

    Attributes:
        memory_mb: Resident memory.
        files: Number of open files.
    """

    memory_mb: float
    files: int

    @classmethod
    def now(cls) -> "Usage":
        """Returns the present usage."""
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd")))


class Growth(NamedTuple):
    """Growth of usage from the second third of measurements to the last one.

    Attributes:
        measurements: Number of measurements.
        first: Median usage of the second third.
        last: Median usage of the last third.
    """

    measurements: int
    first: Usage
    last: Usage

    @classmethod
    def of(cls, measured: Sequence[Usage]) -> "Growth":
        """Returns the growth in measurements, at least three."""
        third = len(measured) // 3
        parts = measured[third : 2 * third], measured[2 * third :]
        medians = [
            Usage(
                statistics.median(usage.memory_mb for usage in part),
                max(usage.files for usage in part),
            )
            for part in parts
        ]
        return cls(len(measured), *medians)

    def is_flat(self, most_mb: float) -> bool:
        """Returns whether memory grew by at most `most_mb`, and open files did not grow."""
        grown = self.last.memory_mb - self.first.memory_mb
        return grown <= most_mb and self.last.files <= self.first.files


class UsageLog(keras.callbacks.Callback):
    """Callback that measures the usage at the end of each evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: list[Usage] = []

    def on_test_end(self, logs: Any = None) -> None:
        self.measured.append(Usage.now())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--steps", type=int, default=5000, help="training steps (default: 5000)")
    add("--exports", type=int, default=12, help="exports after the training (default: 12)")
    add("--most-growth", type=float, metavar="MB", default=20.0, help="default: 20")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="long_run_") as temporary:
        directory = pathlib.Path(temporary)
        parts = {"training": measure_training(directory, options.steps)}
        parts["exports"] = measure_exports(directory, options.exports)
    print(f"{'':10}{'measurements':>14}{'memory, MB':>22}{'open files':>16}")
    is_flat = True
    for name, growth in parts.items():
        memory = f"{growth.first.memory_mb:,.1f} → {growth.last.memory_mb:,.1f}"
        files = f"{growth.first.files} → {growth.last.files}"
        verdict = "flat" if growth.is_flat(options.most_growth) else "GROWS"
        is_flat = is_flat and growth.is_flat(options.most_growth)
        print(f"{name:10}{growth.measurements:>14}{memory:>22}{files:>16}  {verdict}")
    return 0 if is_flat else 1


def measure_training(directory: pathlib.Path, steps: int) -> Growth:
    """Trains with many evaluations and checkpoints; returns the growth of the usage."""
    path = write_recipe(directory, 0)
    data = read_yaml(path.read_text())[0]["data"]
    recipe = {
        **RECIPE,
        "data": data,
        "training": {**RECIPE["training"], "steps": steps},
        "evaluation": {
            "every": EVERY,
            "sentences": 4,
            "search": {"beams": 2, "max_length": 12},
        },
        "checkpoints": {"every": EVERY, "keep": 3, "average": 3},
        "tensorboard": {"every": 5, "attention": 0, "samples": 2, "projector": False},
    }
    path.write_text(write_yaml(recipe))
    log = UsageLog()
    train(path, directory / "run", callbacks=[log])
    return Growth.of(log.measured)


def measure_exports(directory: pathlib.Path, count: int) -> Growth:
    """Exports the trained model again and again; returns the growth of the usage."""
    measured = []
    trained = TrainedModel.load(directory / "run")
    for _ in range(count):
        export_model(trained, directory / "exports" / "reversed")
        measured.append(Usage.now())
    return Growth.of(measured)


if __name__ == "__main__":
    sys.exit(main())
