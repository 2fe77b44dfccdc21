"""Growth of the cost of training with length, batch, depth, vocabulary, corpus and workers."""

import contextlib
import dataclasses
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer._utils.pictures import COLORS, draw_png, simplify_axes
from keras_transformer._utils.process import available_cores, peak_memory
from training.benchmarks.growth import PowerLaw, coordinates
from training.benchmarks.models import BENCH_MODELS
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.timing import Row, Stopwatch, time_repeats
from training.benchmarks.training_speed import make_loop, make_runner
from training.benchmarks.workload import Workload, count_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Curve:
    """A quantity that is varied, and the measurement at each of its values.

    Attributes:
        name: label of the axis.
        task: the task of the rows.
        measurement: name of the measurement.
        field: argument of the measurement that varies.
        values: its values.
        settings: the other arguments.
    """

    name: str
    task: str
    measurement: str
    field: str
    values: tuple[int, ...]
    settings: Mapping[str, int] = dataclasses.field(default_factory=dict)


#: Batches have from a thirty-second of the usual 4,096 tokens to all of them.
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
        "layers of encoder and decoder", "scaling_depth", "step", "num_layers",
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


def measure_curves(
    processes: Processes,
    repeats: int,
    curves: Sequence[Curve] = CURVES,
    report: Callable[[str], object] = print,
    warn: Callable[[str], object] = print,
) -> Iterator[Row]:
    """Yields the row of each point that can be measured; `x` is the varied quantity.

    Args:
        processes: the `Processes` that measure.
        repeats: repeats of each measurement.
        curves: the curves.
        report: called with a line about what is being measured.
        warn: called with a line about a point that failed, for example by lack of memory.
    """
    for curve in curves:
        for value in curve.values:
            report(f"{curve.name}: {value:,}")
            settings = {"threads": processes.threads, "repeats": repeats, **curve.settings}
            try:
                row = processes.measure(curve.measurement, **settings, **{curve.field: value})
            except MeasurementError as error:
                warn(f"{curve.name}: {value:,} is left out, {error}")
                continue
            yield {**row, "task": curve.task, "threads": processes.threads, "x": value}


def measure_workers(
    batches: int,
    repeats: int,
    counts: Sequence[int] = WORKERS,
    report: Callable[[str], object] = print,
    warn: Callable[[str], object] = print,
) -> Iterator[Row]:
    """Yields a row for each number of worker processes, each with one core and thread.

    Args:
        batches: training batches of a repeat.
        repeats: number of repeats.
        counts: numbers of workers.
        report: called with a line about what is being measured.
        warn: called with a line about what is left out.
    """
    settings = {"config": "tiny", "batches": batches, "repeats": repeats}
    for count in counts:
        name = f"{count} worker process{'es' if count > 1 else ''}"
        report(name)
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


def cluster(count: int) -> list[str]:
    """Returns the TF_CONFIG of each of `count` workers on this machine; empty for one worker."""
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


def fit_curves(rows: Sequence[Row]) -> list[Row]:
    """Returns a row for each curve: the exponents of time and of added memory.

    The exponent of the last two points is given as well, because at the first points most of the
    cost is the constant cost of a step.
    """
    fits = []
    for task, points in _group_points(rows).items():
        fit: Row = {"task": task, "metric": "exponents"}
        for name in ("value", "added_mb"):
            x, y = coordinates(points, name)
            if len(x) > 1:
                fit[name] = round(PowerLaw.fit(x, y).exponent, 3)
                fit[f"{name}_at_the_end"] = round(PowerLaw.fit(x[-2:], y[-2:]).exponent, 3)
        fits.append(fit)
    return fits


def _group_points(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each curve by task, without those of workers."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["task"] != "scaling_workers":
            groups.setdefault(row["task"], []).append(row)
    return groups


# Measurements, each in a process of its own.

# Steps in a repeat: several, so that costs that occur now and then are included.
_STEPS = 3
# Number of tokens of a short sentence.
_SHORT = 8
# Vocabulary with which corpora are tokenized, and the number of lines from which it is learned.
_VOCABULARY_SIZE, _LEARNED_LINES = 8000, 20_000


def measure_step(
    *, rows: int, length: int, repeats: int, threads: int, config: str = "tiny", **changes: Any
) -> Row:
    """Measures a training step without padding; returns milliseconds and added memory.

    Added memory is the difference to a training on one short sentence.

    Args:
        rows: number of sentence pairs in a batch.
        length: number of tokens of each source and target.
        repeats: number of repeats of three steps.
        threads: number of threads of TensorFlow.
        config: name of a `BenchModel`. Default "tiny".
        **changes: fields of the `BenchModel` to change, such as `num_layers`.
    """
    from training.benchmarks.array_batches import ArrayBatches

    model = dataclasses.replace(BENCH_MODELS[config], **changes)
    random = np.random.default_rng(0)
    short, full = (
        tuple(random.integers(4, model.vocabulary_size, (3, *shape), dtype=np.int32))
        for shape in ((1, _SHORT), (rows, length))
    )
    batches = ArrayBatches([short, *[full] * _STEPS * (1 + repeats)])
    loop = make_loop(model, batches, max_length=max(length, _SHORT))
    loop.run(1)
    memory_before = peak_memory()
    loop.run(_STEPS)
    watches = time_repeats(lambda: loop.run(_STEPS), repeats, threads)
    return {
        **_row(config, f"{rows}x{length}", watches, 1e3 / _STEPS, "ms_per_step"),
        "added_mb": peak_memory() - memory_before,
    }


def measure_preparation(*, lines: int, repeats: int, threads: int) -> Row:
    """Measures the preparation of a corpus; returns seconds and added memory.

    A file with sentence pairs is tokenized and stored, and bucket boundaries are chosen.

    Args:
        lines: number of sentence pairs.
        repeats: number of repeats.
        threads: number of threads.
    """
    from keras_transformer.data import PairBatches, TsvCorpus, choose_buckets, tokenize_corpus
    from keras_transformer.text import learn_tokenizer

    texts, _ = Workload().texts()
    tokenizer = learn_tokenizer(
        "sentencepiece",
        texts[:_LEARNED_LINES],
        _VOCABULARY_SIZE,
        model="bpe",
        progress=lambda *_: None,
    )
    watches = []
    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as directory:
        path = os.path.join(directory, "pairs.tsv")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(lines):
                # The number distinguishes a pair from earlier ones when the texts are used up.
                source, target = (texts[(2 * number + side) % len(texts)] for side in (0, 1))
                file.write(f"{source} {number}\t{target} {number}\n")
        memory_before = peak_memory()
        for repeat in range(repeats):
            watch = Stopwatch(threads)
            with watch:
                cache_directory = os.path.join(directory, str(repeat))
                cache = tokenize_corpus(TsvCorpus(path), tokenizer, cache_directory)
                PairBatches(cache, choose_buckets(cache), seed=1).batch(epoch=0, number=0)
            watches.append(watch)
    return {
        **_row("data", lines, watches, 1.0, "seconds"),
        "added_mb": peak_memory() - memory_before,
    }


def measure_worker(
    *, config: str, batches: int, repeats: int, data: str | None = None
) -> Row | None:
    """Trains as one of the workers in TF_CONFIG.

    Args:
        config: name of a `BenchModel`.
        batches: training batches of a repeat.
        repeats: number of repeats.
        data: directory of the `Workload`. Default: random ids.

    Returns:
        In the first worker, the row: target tokens per second of all workers together. In the
        others, None.
    """
    from keras_transformer.trainer.distribution import Distribution

    _, timed = Workload(data).timing_batches(batches)
    distribution = Distribution("auto")
    with distribution.scope():
        _, run = make_runner(BENCH_MODELS[config], "loop", timed)
        run()
        rates = []
        _, tokens = count_tokens(timed)
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            rates.append(tokens / (time.perf_counter() - start))
    if not distribution.is_chief:
        return None
    return {
        "peer": "keras_transformer loop",
        "config": config,
        "batch": "4096tok",
        "metric": "tgt_tokens_per_s",
        "value": round(statistics.median(rates), 3),
        "spread": [round(rate, 1) for rate in rates],
        "peak_rss_mb": peak_memory(),
        "reps": repeats,
    }


def _row(
    config: str, batch: str | int, watches: Sequence[Stopwatch], factor: float, metric: str
) -> Row:
    values = [watch.seconds * factor for watch in watches]
    return {
        "peer": "keras_transformer loop" if metric == "ms_per_step" else "keras_transformer data",
        "config": config,
        "batch": batch,
        "metric": metric,
        "value": round(statistics.median(values), 3),
        "spread": [round(value, 3) for value in values],
        "peak_rss_mb": peak_memory(),
        "reps": len(watches),
    }


# The picture.

_BLUE, _ORANGE, _BLACK = COLORS[0], COLORS[1], COLORS[-1]
_UNITS = {"ms_per_step": "milliseconds per training step", "seconds": "seconds of preparation"}


def draw_training_growth(rows: Sequence[Row], title: str) -> bytes:
    """Returns the picture of all curves as the bytes of a PNG file.

    Args:
        rows: rows of `measure_curves` and `measure_workers`.
        title: title above all axes.
    """

    def draw(figure: "Figure") -> None:
        columns = [curve for curve in CURVES if any(row["task"] == curve.task for row in rows)]
        panels = figure.subplots(2, len(columns) + 1, squeeze=False)
        for (upper, lower), curve in zip(panels.T, columns, strict=False):
            points = [row for row in rows if row["task"] == curve.task]
            upper.set_title(curve.task.removeprefix("scaling_").capitalize(), fontsize=12)
            _draw_curve(upper, points, "value", _UNITS[points[0]["metric"]], _BLUE)
            _draw_curve(lower, points, "added_mb", "MB of added memory", _ORANGE)
            lower.set_xlabel(curve.name)
        _draw_workers(panels[0, -1], [row for row in rows if row["task"] == "scaling_workers"])
        panels[1, -1].set_visible(False)

    return draw_png(draw, (18, 7.5), padding=(0.08, 0.1), title=title)


def _draw_curve(axes: "Axes", points: Sequence[Row], field: str, label: str, color: str) -> None:
    """Draws points and their fitted power law, whose slope is the exponent."""
    from matplotlib.ticker import LogLocator, NullFormatter

    x, y = coordinates(points, field)
    axes.set_ylabel(label)
    if len(x) < 2:
        axes.set_title("too little to measure", fontsize=10)
        return
    law = PowerLaw.fit(x, y)
    axes.loglog(x, y, color=color, marker="o", linewidth=0, markersize=7)
    at_the_end = PowerLaw.fit(x[-2:], y[-2:]).exponent
    legend = f"exponent {law.exponent:.2f}\nat the end {at_the_end:.2f}"
    axes.loglog(x, law(x), color=color, linewidth=1.5, alpha=0.7, label=legend)
    axes.set_ylim(min(y) / 2, max(max(y) * 5, min(y) * 20))  # leaves space for the legend
    axes.set_xticks(x, [_short(each) for each in x])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(_thousands)
    axes.yaxis.set_minor_formatter(NullFormatter())
    simplify_axes(axes)
    axes.legend(frameon=False, loc="upper left", handlelength=1)


def _thousands(value: float, position: float) -> str:
    return f"{value:,.10g}"


def _short(number: float) -> str:
    """Returns a short text of a number, for an axis.

    >>> _short(512), _short(64_000)
    ('512', '64k')
    """
    return f"{number // 1000}k" if number >= 1000 else str(number)


def _draw_workers(axes: "Axes", rows: Sequence[Row]) -> None:
    """Draws tokens per second by number of processes, with linear speedup as an outline."""
    if not rows:
        axes.set_visible(False)
        return
    rates = [row["value"] for row in rows]
    names = [str(row["x"]) for row in rows]
    linear = [rates[0] * row["x"] / rows[0]["x"] for row in rows]
    axes.bar(names, linear, color="none", edgecolor=_BLACK, linestyle="--", width=0.7)
    axes.bar(names, rates, color=_BLUE, width=0.7)
    for position, rate in enumerate(rates):
        text = f"{rate:,.0f}" if position == 0 else f"{rate:,.0f}\n× {rate / rates[0]:.2f}"
        axes.annotate(text, (position, rate / 2), color="white", ha="center", va="center")
    axes.set_title("Workers", fontsize=12)
    axes.yaxis.set_major_formatter(_thousands)
    axes.set_xlabel("processes, one core each")
    axes.set_ylabel("target tokens per second")
    axes.spines[["top", "right"]].set_visible(False)
