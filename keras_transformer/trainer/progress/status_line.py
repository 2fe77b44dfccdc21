"""The line that moves while a training runs."""

import dataclasses

from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from keras_transformer.trainer.progress.figures import countdown, duration, metric_phrase

# Columns of the terminal below which a part of the line is left out.
_METRICS = {"loss": 0, "accuracy": 100, "tokens_per_second": 76}
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
        for name, room in _METRICS.items():
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
