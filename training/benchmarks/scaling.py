"""How the cost of training grows with all that can grow."""

import contextlib
import dataclasses
import json
import math
import socket

import numpy as np

from keras_transformer._utils.process import available_cores
from training.benchmarks.processes import MeasurementError, Processes


@dataclasses.dataclass(frozen=True)
class Curve:
    """What is varied, and what is measured then.

    Attributes:
        name: of the curve, and of the axis.
        task: the rows' task.
        measurement: the name of a measurement.
        field: its argument that varies.
        values: the numbers that it takes.
        settings: its other arguments.
    """

    name: str
    task: str
    measurement: str
    field: str
    values: tuple
    settings: dict = dataclasses.field(default_factory=dict)


#: From a sixteenth of a usual batch of 4,096 tokens, or less, to a whole one.
CURVES = (
    Curve(
        "tokens in a sentence", "scaling_length", "step", "length",
        (16, 32, 64, 128, 256, 512), {"rows": 8},
    ),
    Curve(
        "sentences in a batch", "scaling_batch", "step", "rows",
        (8, 16, 32, 64, 128, 256), {"length": 16},
    ),
    Curve(
        "layers of encoder and decoder", "scaling_depth", "step", "layers",
        (1, 2, 4, 8, 16), {"rows": 32, "length": 32},
    ),
    Curve(
        "ids in the vocabulary", "scaling_vocabulary", "step", "vocabulary_size",
        (1000, 4000, 16_000, 64_000), {"rows": 32, "length": 32},
    ),
    Curve(
        "pairs in the corpus", "scaling_corpus", "preparation", "lines",
        (1000, 4000, 16_000, 64_000, 256_000),
    ),
)  # fmt: skip
WORKERS = (1, 2)


def measure_curves(processes, repeats, curves=CURVES, say=print, warn=print):
    """Yields a row of JSON for each point that can be measured; `x` is what was varied.

    Args:
        processes: the `Processes` that measure.
        repeats: how often each times its work.
        curves: the `Curve`s.
        say: is called with a line for people who wait.
        warn: is called with a line about a point that failed, for want of memory perhaps.
    """
    for curve in curves:
        for value in curve.values:
            say(f"{curve.name}: {value:,}")
            settings = {"threads": processes.threads, "repeats": repeats, **curve.settings}
            try:
                row = processes.measure(curve.measurement, **settings, **{curve.field: value})
            except MeasurementError as error:
                warn(f"{curve.name}: {value:,} is left out, {error}")
                continue
            yield {**row, "task": curve.task, "threads": processes.threads, "x": value}


def measure_workers(batches, repeats, counts=WORKERS, say=print, warn=print):
    """Yields a row of JSON for each number of worker processes, of one core and thread each.

    Args:
        batches: training batches of a repeat.
        repeats: how often they are timed.
        counts: the numbers of workers.
        say, warn: see `measure_curves`.
    """
    settings = {"config": "tiny", "batches": batches, "repeats": repeats}
    for count in counts:
        name = f"{count} worker process{'es' if count > 1 else ''}"
        say(name)
        if count > len(available_cores()):
            warn(f"{name} left out: there are {len(available_cores())} cores.")
            continue
        workers = [Processes(1, first_core=number) for number in range(count)]
        environments = [{"TF_CONFIG": each} for each in cluster(count)]
        try:
            rows = Processes.measure_together(workers, "worker", environments, **settings)
        except MeasurementError as error:
            warn(f"{name} left out, {error}")
            continue
        yield {**rows[0], "task": "scaling_workers", "threads": 1, "x": count}


def cluster(count):
    """The TF_CONFIG of each of so many workers on this machine; empty for one."""
    if count == 1:
        return [""]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}})
        for number in range(count)
    ]


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """`factor · x ** exponent`, a straight line on logarithmic axes."""

    factor: float
    exponent: float

    @classmethod
    def fit(cls, x, y):
        """The one with the least squares of differences between logarithms.

        >>> law = PowerLaw.fit([1, 10, 100], [3, 30, 300])
        >>> round(law.factor, 6), round(law.exponent, 6)
        (3.0, 1.0)
        """
        exponent, logarithm = np.polyfit(np.log(x), np.log(y), 1)
        return cls(math.exp(logarithm), float(exponent))

    def __call__(self, x):
        return self.factor * np.asarray(x, float) ** self.exponent


def fit_curves(rows):
    """Returns a row of JSON for each curve: the exponents of time and of added memory.

    One of the last two points alone stands beside that of all: the first points are mostly what
    every step costs, whatever its size.
    """
    fits = []
    for task, points in group_points(rows).items():
        fit = {"task": task, "metric": "exponents"}
        for name in ("value", "added_mb"):
            x, y = coordinates(points, name)
            if len(x) > 1:
                fit[name] = round(PowerLaw.fit(x, y).exponent, 3)
                fit[f"{name}_at_the_end"] = round(PowerLaw.fit(x[-2:], y[-2:]).exponent, 3)
        fits.append(fit)
    return fits


def coordinates(points, name):
    """What was varied and what was measured, of all points that have a logarithm."""
    positive = [(row["x"], row[name]) for row in points if row[name] > 0]
    return [x for x, _ in positive], [y for _, y in positive]


def group_points(rows):
    """The rows of each curve, by task; workers are no curve."""
    groups = {}
    for row in rows:
        if row["task"] != "scaling_workers":
            groups.setdefault(row["task"], []).append(row)
    return groups
