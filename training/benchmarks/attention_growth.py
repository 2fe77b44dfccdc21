"""Growth of time and memory of attention with length, by mechanism."""

import contextlib
import ctypes
import math
import pathlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from keras_transformer._utils.pictures import COLORS, MARKERS, draw_png, simplify_axes
from keras_transformer._utils.process import keep_freed_memory, peak_memory
from training.benchmarks.growth import PowerLaw, coordinates
from training.benchmarks.processes import MeasurementError, Processes
from training.benchmarks.timing import Row, time_repeats
from training.benchmarks.training_speed import time_warm_up

if TYPE_CHECKING:
    import tensorflow as tf
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Full attention, the exact mechanism that saves memory, and the approximate ones.
USUAL_MECHANISMS = (
    "scaled_dot_product",
    "chunked",
    "memory_compressed",
    "local",
    "big_bird",
    "linformer",
)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)
#: Exponents are fitted between these lengths. Below, most of the cost is constant.
FITTED = (2048, 16_384)
# Maximum share of the free memory that a measurement may be expected to need.
_SHARE = 0.5


def measure_growth(
    processes: Processes,
    repeats: int,
    mechanisms: Sequence[str],
    lengths: Sequence[int],
    report: Callable[[str], object] = print,
    warn: Callable[[str], object] = print,
) -> Iterator[Row]:
    """Yields a row for each mechanism and length, each from its own process; `x` is the length.

    A mechanism ends at the first length that fails, or that may need more than half of the free
    memory if memory grows with the square of the length.

    Args:
        processes: the `Processes` that measure.
        repeats: repeats of each measurement.
        mechanisms: registered names.
        lengths: numbers of tokens.
        report: called with a line about what is being measured.
        warn: called with a line about what is left out.
    """
    for mechanism in mechanisms:
        last = None
        for length in sorted(lengths):
            name = f"{mechanism}, {length:,} tokens"
            if last is not None:
                expected = last["added_mb"] * (length / last["x"]) ** 2
                available = available_memory()
                if expected > _SHARE * available:
                    warn(
                        f"{name}: left out, because it may need {expected:,.0f} MB of memory, and "
                        f"{available:,.0f} MB are free."
                    )
                    break
            report(name)
            try:
                row = processes.measure(
                    "attention",
                    mechanism=mechanism,
                    length=length,
                    repeats=repeats,
                    threads=processes.threads,
                )
            except MeasurementError as error:
                warn(f"{name}: left out, {error}")
                break
            last = {**row, "threads": processes.threads, "x": length}
            yield last


def fit_growth(rows: Sequence[Row]) -> list[Row]:
    """Returns a row for each mechanism: the exponents of time and of added memory."""
    fits = []
    for mechanism, points in _group_by_mechanism(rows).items():
        points = [row for row in points if FITTED[0] <= row["x"] <= FITTED[1]]
        fit: Row = {"task": "attention", "mechanism": mechanism, "metric": "exponents"}
        for name in ("value", "added_mb"):
            x, y = coordinates(points, name)
            if len(x) > 1:
                fit[name] = round(PowerLaw.fit(x, y).exponent, 3)
        if points:
            fit |= {"from": points[0]["x"], "to": points[-1]["x"]}
        fits.append(fit)
    return fits


def _group_by_mechanism(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["mechanism"], []).append(row)
    return groups


# The measurement, in a process of its own.

#: Number of heads and their size, as in the model `tiny`.
NUM_HEADS, KEY_DIM = 4, 32
# Length of a text that needs next to no memory, and is still several blocks of any mechanism.
_SHORT = 64


def measure_attention(*, mechanism: str, length: int, repeats: int, threads: int) -> Row:
    """Measures an attention layer, forward and backward; returns seconds and added memory.

    Added memory is the difference to a pass over a short text. It is measured in the first pass.
    Then the process keeps freed memory, as in training, and time is measured.

    Args:
        mechanism: registered name; its settings are the defaults.
        length: number of tokens of the one text.
        repeats: number of repeats.
        threads: number of threads of TensorFlow.
    """
    import tensorflow as tf

    gradients = make_pass(mechanism, length)
    short, full = (
        tf.random.stateless_normal([1, tokens, NUM_HEADS * KEY_DIM], [1, 2])
        for tokens in (_SHORT, length)
    )
    run = gradients.get_concrete_function(tf.TensorSpec(full.shape))
    gradients.get_concrete_function(tf.TensorSpec(short.shape))(short)
    with MemoryPeak() as memory:
        run(full)
    keep_freed_memory()
    time_warm_up(lambda: run(full)[0].numpy())
    watches = time_repeats(lambda: run(full)[0].numpy(), repeats, threads)
    seconds = [watch.seconds for watch in watches]
    return {
        "task": "attention",
        "mechanism": mechanism,
        "config": f"{NUM_HEADS} heads of {KEY_DIM}",
        "batch": f"1x{length}",
        "metric": "seconds",
        "value": round(statistics.median(seconds), 5),
        "spread": [round(each, 5) for each in seconds],
        "added_mb": memory.added_mb,
        "peak_rss_mb": peak_memory(),
        "reps": repeats,
    }


def make_pass(mechanism: str, length: int) -> "tf.types.experimental.PolymorphicFunction":
    """Returns a function from states `[B, T, M]` to gradients of states and weights."""
    import tensorflow as tf

    from keras_transformer.layers import MECHANISMS, MultiHeadAttention

    kind = MECHANISMS[mechanism]
    bound = {"max_length": max(length, _SHORT)} if kind.has_max_length else {}
    layer = MultiHeadAttention(NUM_HEADS, mechanism=kind(**bound))
    layer.build((None, None, NUM_HEADS * KEY_DIM))

    @tf.function
    def gradients(states: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = tf.reduce_sum(layer(states, training=True) ** 2)
        weights = [variable.value for variable in layer.trainable_variables]
        return tape.gradient(loss, [states, *weights])

    return gradients


class MemoryPeak:
    """Context manager that measures the peak memory of a block.

    Memory that was freed before the block is returned to the system first, because it would be used
    again without being noticed; and the peak so far is reset. Where a system can do neither, only
    memory beyond the peak so far is measured.

    Attributes:
        added_mb: difference between the peak within the block and the memory before it, in MB.

    >>> import numpy as np
    >>> with MemoryPeak() as memory:
    ...     total = np.ones(2**24).sum()
    >>> 120 < memory.added_mb < 140
    True
    """

    added_mb: float

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, see proc(5)
        self._before = _peak()
        return self

    def __exit__(self, *_: object) -> None:
        self.added_mb = round(_peak() - self._before, 1)


def _peak() -> float:
    """Returns the peak memory of this process since the last reset, in MB."""
    kilobytes = _read("/proc/self/status", "VmHWM")
    return peak_memory() if kilobytes is None else kilobytes / 1024


def available_memory() -> float:
    """Returns the MB that are free for new processes, or infinity if that is unknown."""
    kilobytes = _read("/proc/meminfo", "MemAvailable")
    return math.inf if kilobytes is None else kilobytes / 1024


def _read(path: str, field: str) -> int | None:
    """Returns a number from one of Linux' tables, or None if there is no such table or field."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return None


# The picture.


def draw_growth(rows: Sequence[Row], title: str) -> bytes:
    """Returns the picture of time and memory by length as the bytes of a PNG file.

    Args:
        rows: rows of `measure_growth`.
        title: title above both axes.
    """

    def draw(figure: "Figure") -> None:
        left, right = figure.subplots(1, 2)
        _draw_panel(left, rows, "value", "seconds, forward and backward")
        _draw_panel(right, rows, "added_mb", "MB of memory at the peak, without the process itself")

    return draw_png(draw, (15, 7), padding=(0.1, 0.1), title=title)


def _draw_panel(axes: "Axes", rows: Sequence[Row], field: str, label: str) -> None:
    """Draws a line for each mechanism, with its exponent in the legend."""
    for number, (mechanism, points) in enumerate(_group_by_mechanism(rows).items()):
        x, y = coordinates(points, field)
        fitted = [(a, b) for a, b in zip(x, y, strict=True) if FITTED[0] <= a <= FITTED[1]]
        legend = mechanism
        if len(fitted) > 1:
            legend += f"  {PowerLaw.fit(*zip(*fitted, strict=True)).exponent:.2f}"
        axes.loglog(
            x,
            y,
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number % len(MARKERS)],
            linewidth=2,
            markersize=7,
            label=legend,
        )
    lengths = sorted({row["x"] for row in rows})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_xlabel("tokens")
    axes.set_ylabel(label)
    simplify_axes(axes)
    axes.legend(
        frameon=False,
        loc="upper left",
        title=f"exponent from {FITTED[0]:,} tokens on",
        alignment="left",
    )
