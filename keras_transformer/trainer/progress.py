"""Which report suits a stream."""

import collections
import contextlib
import dataclasses
import math
import os
import time

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from keras_transformer._utils.console import shown
from keras_transformer.trainer.summary import countdown, duration, metric_phrase, print_summary


class ForgivingStream:
    """Writes to a stream what that stream can take, and never complains.

    A training is worth more than what it says: it goes on when the terminal is gone, the reader of
    a pipe has had enough, or the disk with the log is full. A stream of another encoding gets
    question marks for what it cannot show.

    >>> import io
    >>> stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    >>> ForgivingStream(stream).write("✓ Grüße")
    >>> stream.flush()
    >>> stream.buffer.getvalue()
    b'? Gr??e'
    >>> stream.close()
    >>> ForgivingStream(stream).write("Anybody there?")
    """

    def __init__(self, stream):
        self._stream = stream

    @property
    def encoding(self):
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text):
        text = text.encode(self.encoding, "replace").decode(self.encoding)
        # A stream that is closed raises ValueError.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self):
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self):
        with contextlib.suppress(OSError, ValueError):
            return self._stream.isatty()
        return False

    def fileno(self):
        return self._stream.fileno()


# Reports of updates that count for the time left: enough of them to have evaluations and saves in
# due proportion, few enough to forget a slow start.
_WINDOW = 200


class Pace:
    """Where a training stands.

    >>> now = 0.0
    >>> pace = Pace(first_step=0, total_steps=100, epoch_steps=40, clock=lambda: now)
    >>> pace.seconds_left() is None
    True
    >>> for step, now in [(10, 30.0), (20, 35.0), (50, 50.0)]:
    ...     pace.update(step)
    >>> pace.epoch, pace.epochs, pace.seconds_left()
    (2, 3, 25.0)

    Attributes:
        step, total_steps: updates made, and to be made.

    Args:
        first_step, total_steps, epoch_steps: as in `TrainingReport.begin`.
        clock: a function that returns seconds.
    """

    def __init__(self, first_step, total_steps, epoch_steps, clock=time.monotonic):
        self.step = first_step
        self.total_steps = total_steps
        self._epoch_steps = epoch_steps
        self._clock = clock
        self._reports = collections.deque(maxlen=_WINDOW)

    def update(self, step):
        self.step = step
        self._reports.append((self._clock(), step))

    @property
    def epoch(self):
        """The epoch of the last update, from 1 on."""
        return max(1, math.ceil(self.step / self._epoch_steps))

    @property
    def epochs(self):
        """The epoch of the update that ends the training."""
        return max(1, math.ceil(self.total_steps / self._epoch_steps))

    def seconds_left(self):
        """Returns the seconds until the last update; None as long as nobody can tell.

        The first report, which has waited for TensorFlow to compile, only starts the clock.
        """
        if len(self._reports) < 2:
            return None
        (first_time, first_step), (last_time, last_step) = self._reports[0], self._reports[-1]
        if last_step <= first_step:
            return None
        seconds = (last_time - first_time) / (last_step - first_step)
        return max(0.0, seconds * (self.total_steps - last_step) - (self._clock() - last_time))


class TrainingReport:
    """Says nothing: the base of all reports, and the one for programs.

    A training calls these methods in this order: `stage` for each piece of work before the first
    update, `begin`, then `update` and `busy` in turn, and `end`. A training that fails or is
    stopped does not come to its end. `say` may be called at any time and from any thread.

    Example:

    >>> with TrainingReport() as report:
    ...     report.stage("Building the model")
    ...     report.begin("CPU, float32", first_step=0, total_steps=100, epoch_steps=50)
    ...     report.update(10, {"loss": 2.5})
    """

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def stage(self, text):
        """A piece of work before the training starts; it ends when the next thing is told."""

    def advance(self, done, total=None):
        """How far the stage, or what keeps the training busy, is; `total` if it is known."""

    def begin(self, headline, first_step, total_steps, epoch_steps):
        """The training starts.

        Args:
            headline: device, precision, size and batches in one line.
            first_step: the updates that are made already: 0, or more if the training is resumed.
            total_steps: the updates to be made, these included.
            epoch_steps: the updates of one pass over the corpus, which need not be whole.
        """

    def update(self, step, logs):
        """So many updates are made.

        Args:
            step: the number of the last one.
            logs: floats by name: "loss", "accuracy", "tokens_per_second", … What is not there is
                not shown.
        """

    def busy(self, text):
        """Something else is done between updates or after them, such as "Evaluating"."""

    def say(self, text):
        """Something to be read, now and later: what an evaluation gave, a fallback, a stop."""

    def end(self, result):
        """The training has come to its end, with a `TrainingResult`."""

    def close(self):
        """Nothing more comes; the terminal is as it was."""


# A log of a day has at most 8,640 lines of updates.
_SECONDS_BETWEEN_LINES = 10

_PLAIN_METRICS = ("loss", "accuracy", "tokens_per_second")


class PlainReport(TrainingReport):
    """Writes a line for each stage, for updates every ten seconds, and for what is said.

    >>> import sys
    >>> report = PlainReport(sys.stdout)
    >>> report.stage("Building the model")
    Building the model
    >>> report.begin("CPU, float32", first_step=0, total_steps=100, epoch_steps=50)
    CPU, float32
    >>> report.update(10, {"loss": 2.5, "tokens_per_second": 12345.6})
    update 10 of 100, epoch 1 of 2, loss 2.5000, 12,346 tokens/s

    Args:
        stream: where the lines go.
        results: where the summary goes at the end; the same stream if it is None.
        clock: a function that returns seconds.
    """

    def __init__(self, stream, results=None, clock=time.monotonic):
        self._stream = ForgivingStream(stream)
        self._results = self._stream if results is None else ForgivingStream(results)
        self._clock = clock
        self._pace = None
        self._last_line = None
        self._unwritten = None
        self._said_to_be_busy = set()

    def stage(self, text):
        self._write(text)

    def begin(self, headline, first_step, total_steps, epoch_steps):
        self._write(headline)
        self._pace = Pace(first_step, total_steps, epoch_steps, self._clock)

    def update(self, step, logs):
        self._pace.update(step)
        now = self._clock()
        self._unwritten = self._describe(step, logs)
        if (
            self._last_line is None
            or now - self._last_line >= _SECONDS_BETWEEN_LINES
            or step >= self._pace.total_steps
        ):
            self._last_line = now
            self._write_update()

    def busy(self, text):
        # Once each: it tells what takes its time, without a line for a thousand saves.
        if text not in self._said_to_be_busy:
            self._said_to_be_busy.add(text)
            self._write(text)

    def say(self, text):
        for line in text.splitlines():
            self._write(line)

    def end(self, result):
        self.close()
        print_summary(result, self._results)

    def close(self):
        """Writes the last update, if there was no time for it yet."""
        self._write_update()

    def _describe(self, step, logs):
        parts = [
            f"update {step:,} of {self._pace.total_steps:,}",
            f"epoch {self._pace.epoch:,} of {self._pace.epochs:,}",
            *(metric_phrase(name, logs[name]) for name in _PLAIN_METRICS if name in logs),
        ]
        left = self._pace.seconds_left()
        return ", ".join(parts if left is None else [*parts, f"{countdown(left)} left"])

    def _write_update(self):
        if self._unwritten is not None:
            self._write(self._unwritten)
            self._unwritten = None

    def _write(self, text):
        # In one piece: another thread may be saying something.
        self._stream.write(shown(text) + "\n")
        self._stream.flush()


# Columns of the terminal below which a part of the line is left out.
_STATUS_METRICS = {"loss": 0, "accuracy": 100, "tokens_per_second": 76}
_ROOM_FOR_TIME = 50
_ROOM_FOR_BAR = 50
_ROOM_AT_THE_END = 4


@dataclasses.dataclass
class Activity:
    """What is done when no updates are made.

    Attributes:
        text: says it.
        started: a clock's time.
        done, total: how far it is; None if nobody knows.
    """

    text: str
    started: float
    done: int | None = None
    total: int | None = None


class StatusLine:
    """Draws itself anew several times a second, by what its attributes are then.

    Attributes:
        activity: an `Activity`, or None while updates are made.
        pace: a `Pace`; None before the training begins.
        logs: the metrics of the last update.
    """

    def __init__(self, clock, is_unicode):
        self.activity = None
        self.pace = None
        self.logs = {}
        self._clock = clock
        self._spinner = Spinner("dots" if is_unicode else "line")

    def __rich_console__(self, console, options):
        # Read once: another thread may change them.
        activity, pace = self.activity, self.pace
        if pace is not None:
            cells = self._training_cells(pace, activity, options.max_width)
        elif activity is not None:
            cells = self._activity_cells(activity, options.max_width)
        else:
            return
        has_bar = any(isinstance(cell, ProgressBar) for cell in cells)
        # With room at the end for the ^C that a terminal writes there: a line that is broken in
        # two could not be taken back.
        width = options.max_width - _ROOM_AT_THE_END if has_bar else None
        grid = Table.grid(padding=(0, 2, 0, 0), expand=has_bar)
        grid.width = width
        for cell in cells:
            is_bar = isinstance(cell, ProgressBar)
            grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1 if is_bar else None)
        grid.add_row(*cells)
        yield grid

    def _training_cells(self, pace, activity, width):
        cells = [Text(f"epoch {pace.epoch:,}/{pace.epochs:,}")]
        if width >= _ROOM_FOR_BAR:
            cells.append(ProgressBar(total=pace.total_steps, completed=pace.step))
        cells.append(Text(f"{pace.step:,}/{pace.total_steps:,}"))
        if activity is not None:
            return [*cells, *self._activity_cells(activity, width=0)]
        for name, room in _STATUS_METRICS.items():
            if name in self.logs and width >= room:
                cells.append(Text(metric_phrase(name, self.logs[name])))
        if width >= _ROOM_FOR_TIME:
            cells.append(Text(f"{countdown(pace.seconds_left())} left"))
        return cells

    def _activity_cells(self, activity, width):
        cells = [self._spinner, Text(activity.text)]
        done, total = activity.done, activity.total
        if total and width >= _ROOM_FOR_BAR:
            cells.append(ProgressBar(total=total, completed=done))
        if done is not None:
            cells.append(Text(f"{done:,}/{total:,}" if total else f"{done:,}"))
        return [*cells, Text(duration(self._clock() - activity.started), style="dim")]


class TerminalReport(TrainingReport):
    """Shows stages with a spinner and updates with a bar, loss, tokens a second and time left.

    Colors are left out where the environment has NO_COLOR.

    Args:
        stream: the terminal.
        results: where the summary goes at the end; the same terminal if it is None.
        clock: a function that returns seconds.
    """

    def __init__(self, stream, results=None, clock=time.monotonic):
        stream = ForgivingStream(stream)
        self._results = stream if results is None else ForgivingStream(results)
        self._clock = clock
        self._console = Console(file=stream, highlight=False)
        self._is_unicode = self._console.encoding.lower().startswith("utf")
        self._line = StatusLine(clock, self._is_unicode)
        self._live = Live(
            self._line,
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def stage(self, text):
        self._finish_stage()
        self._line.activity = Activity(shown(text), self._clock())
        self._show()

    def advance(self, done, total=None):
        if self._line.activity is not None:
            self._line.activity.done = done
            self._line.activity.total = total

    def begin(self, headline, first_step, total_steps, epoch_steps):
        self._finish_stage()
        self.say(headline)
        self._line.pace = Pace(first_step, total_steps, epoch_steps, self._clock)
        # The first update waits for TensorFlow, which compiles.
        self._line.activity = Activity("first update", self._clock())
        self._show()

    def update(self, step, logs):
        self._line.pace.update(step)
        self._line.logs = logs
        self._line.activity = None

    def busy(self, text):
        self._line.activity = Activity(shown(text), self._clock())

    def say(self, text):
        for line in text.splitlines():
            self._console.print(Text(shown(line)))

    def end(self, result):
        self.close()
        print_summary(result, self._results)

    def close(self):
        self._live.stop()

    def _show(self):
        self._live.start()
        # A process that is killed would leave the terminal without one.
        self._console.show_cursor(True)

    def _finish_stage(self):
        activity, self._line.activity = self._line.activity, None
        if activity is not None:
            mark = "✓ " if self._is_unicode else ""
            took = duration(self._clock() - activity.started)
            self._console.print(Text.assemble(mark, activity.text, "  ", (took, "dim")))


def make_report(stream, results=None):
    """Returns a `TerminalReport` for a terminal that can move its cursor, else a `PlainReport`.

    >>> import io
    >>> type(make_report(io.StringIO())).__name__
    'PlainReport'

    Args:
        stream: where the progress is shown, for example `sys.stderr`.
        results: where the summary goes at the end; the same stream if it is None.
    """
    is_dumb = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown")
    kind = TerminalReport if stream.isatty() and not is_dumb else PlainReport
    return kind(stream, results)
