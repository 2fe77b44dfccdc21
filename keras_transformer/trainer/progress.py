"""Reports of a training to the user: a bar on a terminal, lines elsewhere."""

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from keras_transformer._utils.console import shown
from keras_transformer._utils.progress import Pace, countdown, duration
from keras_transformer.trainer.summary import metric_phrase, print_summary

if TYPE_CHECKING:
    from keras_transformer.trainer.training_result import TrainingResult

Clock = Callable[[], float]


class TrainingReport:
    """Base of all reports, which shows nothing.

    A training calls `stage` for each piece of work before the first step, `begin`, then `update`
    and `busy` in turn, and `end` if it succeeds; and `say` at any time and from any thread.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stage(self, text: str) -> None:
        """Begins a stage of the preparation; it ends with the next stage or with `begin`."""

    def advance(self, done: int, total: int | None = None) -> None:
        """Reports how much of a stage, or of other work, is done, of a total if it is known."""

    def begin(self, headline: str, first_step: int, total_steps: int, epoch_steps: float) -> None:
        """Begins training.

        Args:
            headline: Device, precision, size and batches in one line.
            first_step: Number of completed steps: above 0 if the training is resumed.
            total_steps: Number of steps of the training, including those.
            epoch_steps: Number of steps of an epoch, which need not be whole.
        """

    def update(self, step: int, logs: Mapping[str, float]) -> None:
        """Reports the number of the last step, and metrics by name, such as "loss"."""

    def busy(self, text: str) -> None:
        """Begins other work between or after the steps, such as "Evaluating"."""

    def say(self, text: str) -> None:
        """Shows a message of one line that stays, such as the metrics of an evaluation."""

    def end(self, result: "TrainingResult") -> None:
        """Shows the summary of a finished training."""

    def close(self) -> None:
        """Ends the report and restores the terminal."""


def make_report(stream: TextIO, results: TextIO | None = None) -> TrainingReport:
    """Returns a `TerminalReport` for a terminal that can move its cursor, else a `PlainReport`.

    Args:
        stream: Stream for the progress, such as `sys.stderr`.
        results: Stream for the summary. Default: the same stream.
    """
    is_dumb = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown")
    kind = TerminalReport if stream.isatty() and not is_dumb else PlainReport
    return kind(stream, results)


class ForgivingStream:
    """Stream wrapper that ignores write errors and replaces characters that cannot be encoded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:
        """Encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> None:
        """Writes text if that is possible."""
        text = text.encode(self.encoding, "replace").decode(self.encoding)
        # A closed stream raises ValueError.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flushes the stream if that is possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream.isatty()
        return False


class StreamReport(TrainingReport):
    """Base of the reports that write to streams.

    Args:
        stream: Stream for the progress.
        results: Stream for the summary. Default: the same stream.
        clock: Function that returns seconds. Default: `time.monotonic`.
    """

    def __init__(
        self, stream: TextIO, results: TextIO | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._stream = cast(TextIO, ForgivingStream(stream))
        self._results = cast(TextIO, ForgivingStream(results or stream))
        self._clock = clock
        self._pace = Pace(1, 0, clock)  # until training begins
        self._epoch_steps = 1.0

    def begin(self, headline: str, first_step: int, total_steps: int, epoch_steps: float) -> None:
        self.say(headline)
        self._pace = Pace(total_steps, first_step, self._clock)
        self._epoch_steps = epoch_steps

    def _epoch(self, step: float) -> int:
        """Returns the number of the epoch of a step, from 1."""
        return max(1, math.ceil(step / self._epoch_steps))

    def say(self, text: str) -> None:
        self._write(shown(text))

    def end(self, result: "TrainingResult") -> None:
        self.close()
        print_summary(result, self._results)

    def _write(self, line: str) -> None:
        """Writes a line without control characters."""


# A log of a day has at most 8,640 lines of steps.
_SECONDS_BETWEEN_LINES = 10

_PLAIN_METRICS = ("loss", "accuracy", "tokens_per_second")


class PlainReport(StreamReport):
    """Report in lines: one for each stage, for steps every ten seconds, and for each message.

    >>> import sys
    >>> report = PlainReport(sys.stdout)
    >>> report.begin("CPU, float32", first_step=0, total_steps=100, epoch_steps=50)
    CPU, float32
    >>> report.update(10, {"loss": 2.5, "tokens_per_second": 12345.6})
    step 10 of 100, epoch 1 of 2, loss 2.5000, 12,346 tokens/s
    """

    def __init__(
        self, stream: TextIO, results: TextIO | None = None, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(stream, results, clock)
        self._last_line = -math.inf
        self._unwritten: str | None = None
        self._reported_work: set[str] = set()

    def stage(self, text: str) -> None:
        self._write(shown(text))

    def update(self, step: int, logs: Mapping[str, float]) -> None:
        pace = self._pace
        pace.update(step)
        left = pace.seconds_left()
        parts = [
            f"step {step:,} of {pace.total:,}",
            f"epoch {self._epoch(step):,} of {self._epoch(pace.total):,}",
            *(metric_phrase(name, logs[name]) for name in _PLAIN_METRICS if name in logs),
            *([] if left is None else [f"{countdown(left)} left"]),
        ]
        self._unwritten = ", ".join(parts)
        now = self._clock()
        if now - self._last_line >= _SECONDS_BETWEEN_LINES or step >= pace.total:
            self._last_line = now
            self.close()

    def busy(self, text: str) -> None:
        # Once for each text, so that a thousand checkpoints are not a thousand lines.
        if text not in self._reported_work:
            self._reported_work.add(text)
            self._write(shown(text))

    def close(self) -> None:
        """Writes the last steps if their line is still due."""
        if self._unwritten is not None:
            self._write(self._unwritten)
            self._unwritten = None

    def _write(self, line: str) -> None:
        # In one piece, because another thread may be writing.
        self._stream.write(line + "\n")
        self._stream.flush()


# Columns that a terminal must have for each part of the line.
_STATUS_METRICS = {"loss": 0, "accuracy": 100, "tokens_per_second": 76}
_COLUMNS_FOR_TIME = 50
_COLUMNS_FOR_BAR = 50
_MARGIN = 4


@dataclasses.dataclass
class Activity:
    """Work other than training steps: how much is done, as far as that is known."""

    text: str
    started: float
    done: int | None = None
    total: int | None = None


class TerminalReport(StreamReport):
    """Report with a spinner for stages, and a bar with metrics and time left for steps.

    Colors are left out if the environment has NO_COLOR.
    """

    def __init__(
        self, stream: TextIO, results: TextIO | None = None, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(stream, results, clock)
        self._activity: Activity | None = None  # during training steps there is none
        self._is_training = False
        self._logs: Mapping[str, float] = {}
        self._console = Console(file=self._stream, highlight=False)
        self._is_unicode = self._console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if self._is_unicode else "line")
        # It redraws the report itself, a line at the bottom, several times a second.
        redirect: Any = {"redirect_stdout": False, "redirect_stderr": False}
        self._live = Live(self, console=self._console, transient=True, **redirect)

    def stage(self, text: str) -> None:
        self._finish_stage()
        self.busy(text)
        self._show()

    def advance(self, done: int, total: int | None = None) -> None:
        if self._activity is not None:
            self._activity.done, self._activity.total = done, total

    def begin(self, headline: str, first_step: int, total_steps: int, epoch_steps: float) -> None:
        self._finish_stage()
        super().begin(headline, first_step, total_steps, epoch_steps)
        self._is_training = True
        self.busy("compiling")  # as TensorFlow does before the first step
        self._show()

    def update(self, step: int, logs: Mapping[str, float]) -> None:
        self._pace.update(step)
        self._logs = logs
        self._activity = None

    def busy(self, text: str) -> None:
        self._activity = Activity(shown(text), self._clock())

    def close(self) -> None:
        self._live.stop()

    def _write(self, line: str) -> None:
        self._console.print(Text(line))

    def _show(self) -> None:
        self._live.start()
        # A killed process would leave the terminal without a cursor.
        self._console.show_cursor(True)

    def _finish_stage(self) -> None:
        activity, self._activity = self._activity, None
        if activity is not None:
            mark = "✓ " if self._is_unicode else ""
            took = duration(self._clock() - activity.started)
            self._console.print(Text.assemble(mark, activity.text, "  ", (took, "dim")))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        activity = self._activity  # read once, because another thread may change it
        if self._is_training:
            cells = self._training_cells(activity, options.max_width)
        elif activity is not None:
            cells = self._activity_cells(activity, options.max_width)
        else:
            return
        ratios = [1 if isinstance(cell, ProgressBar) else None for cell in cells]
        grid = Table.grid(padding=(0, 2, 0, 0), expand=any(ratios))
        # With space for the ^C that a terminal writes, because a wrapped line cannot be erased.
        grid.width = options.max_width - _MARGIN if any(ratios) else None
        for ratio in ratios:
            grid.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
        grid.add_row(*cells)
        yield grid

    def _training_cells(self, activity: Activity | None, width: int) -> list[RenderableType]:
        pace = self._pace
        epoch, epochs = self._epoch(pace.done), self._epoch(pace.total)
        cells: list[RenderableType] = [Text(f"epoch {epoch:,}/{epochs:,}")]
        if width >= _COLUMNS_FOR_BAR:
            cells.append(ProgressBar(total=pace.total, completed=pace.done))
        cells.append(Text(f"{pace.done:,}/{pace.total:,}"))
        if activity is not None:
            return [*cells, *self._activity_cells(activity, width=0)]
        for name, columns in _STATUS_METRICS.items():
            if name in self._logs and width >= columns:
                cells.append(Text(metric_phrase(name, self._logs[name])))
        if width >= _COLUMNS_FOR_TIME:
            cells.append(Text(f"{countdown(pace.seconds_left())} left"))
        return cells

    def _activity_cells(self, activity: Activity, width: int) -> list[RenderableType]:
        cells: list[RenderableType] = [self._spinner, Text(activity.text)]
        done, total = activity.done, activity.total
        if total and width >= _COLUMNS_FOR_BAR:
            cells.append(ProgressBar(total=total, completed=done or 0))
        if done is not None:
            cells.append(Text(f"{done:,}/{total:,}" if total else f"{done:,}"))
        return [*cells, Text(duration(self._clock() - activity.started), style="dim")]
