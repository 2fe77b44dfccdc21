"""Estimates of the time left."""

from rich.console import Console
from rich.progress import Progress

from keras_transformer._utils.progress import Pace, TimeLeftColumn


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_pace_counts_down_between_reports():
    clock = Clock()
    pace = Pace(total=100, clock=clock)
    for clock.now, done in [(0, 0), (10, 10), (20, 20)]:
        pace.update(done)
    assert pace.seconds_left() == 80
    clock.now = 25
    assert pace.seconds_left() == 75


def test_pace_of_bursts_stays_in_proportion():
    """A burst of 50 of 200 takes 100 seconds; the next one comes late."""
    clock = Clock()
    pace = Pace(total=200, clock=clock)
    for clock.now, done in [(0, 0), (100, 50)]:
        pace.update(done)
    assert pace.seconds_left() == 300
    clock.now = 190
    assert pace.seconds_left() == 210
    # Far beyond the next expected report, the estimate does not fall to 0.
    clock.now = 1000
    assert pace.seconds_left() == 200


def test_pace_has_no_estimate_before_progress():
    clock = Clock()
    pace = Pace(total=10, clock=clock)
    assert pace.seconds_left() is None
    pace.update(0)
    clock.now = 5
    pace.update(0)
    assert pace.seconds_left() is None


def test_time_left_column_is_right_for_bursts():
    clock = Clock()
    column = TimeLeftColumn()
    column.max_refresh = None  # otherwise rich caches the text by the real clock
    console = Console(force_terminal=True, width=80)
    progress = Progress(column, console=console, get_time=clock, auto_refresh=False)
    progress.add_task("", total=1000)
    (task,) = progress.tasks
    assert column(task).plain == "-:--"
    for clock.now, done in [(60, 250), (120, 500)]:
        progress.update(task.id, completed=done)
        text = column(task).plain
    assert text == "2:00"
    clock.now = 150
    assert column(task).plain == "1:30"
