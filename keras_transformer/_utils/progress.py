"""Estimates of the time left of long work, and their display."""

import collections
import time
from collections.abc import Callable

from rich.progress import ProgressColumn, Task, TaskID
from rich.text import Text

# Number of latest reports that count: enough to include pauses, such as evaluations, in proportion;
# few enough to exclude a slow start.
_WINDOW = 200


class Pace:
    """Estimate of the time left, from reports of how much is done.

    The first report only starts the clock, in seconds. Reports may come in bursts: between two of
    them the estimate counts down, but no further than the average time between reports explains.

    >>> now = 0.0
    >>> pace = Pace(total=100, clock=lambda: now)
    >>> for done, now in [(10, 30.0), (20, 35.0), (50, 50.0)]:
    ...     pace.update(done)
    >>> pace.seconds_left()
    25.0
    """

    def __init__(
        self, total: float, done: float = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total: float = total
        self.done: float = done
        self._clock = clock
        self._reports: collections.deque[tuple[float, float]] = collections.deque(maxlen=_WINDOW)

    def update(self, done: float) -> None:
        """Reports how much is done."""
        self.done = done
        self._reports.append((self._clock(), done))

    def seconds_left(self) -> float | None:
        """Returns the estimated seconds until all is done; None if there is no estimate yet."""
        if len(self._reports) < 2:
            return None
        (first_time, first_done), (last_time, last_done) = self._reports[0], self._reports[-1]
        if last_done <= first_done:
            return None
        seconds = (last_time - first_time) / (last_done - first_done)
        average_gap = (last_time - first_time) / (len(self._reports) - 1)
        elapsed = min(self._clock() - last_time, average_gap)
        return max(0.0, seconds * (self.total - last_done) - elapsed)


class TimeLeftColumn(ProgressColumn):
    """Column of `rich.progress.Progress` with the time left, also of work that comes in bursts."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._paces: dict[TaskID, Pace] = {}

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(countdown(None))
        if task.id not in self._paces:
            self._paces[task.id] = Pace(task.total, clock=task.get_time)
            self._paces[task.id].update(task.completed)
        pace = self._paces[task.id]
        pace.total = task.total
        if task.completed != pace.done:
            pace.update(task.completed)
        return Text(countdown(pace.seconds_left()))


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(4.06), duration(151), duration(7265), duration(93784)
    ('4.1 s', '2 min 31 s', '2 h 1 min', '1 d 2 h')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def countdown(seconds: float | None) -> str:
    """Returns the time left in the form of a clock; None is an unknown time.

    >>> countdown(4.6), countdown(151), countdown(7265), countdown(93784), countdown(None)
    ('0:05', '2:31', '2:01:05', '1 d 2 h', '-:--')
    """
    if seconds is None:
        return "-:--"
    if seconds >= 24 * 3600:
        return duration(seconds)
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
