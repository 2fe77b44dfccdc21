"""How far a training is, and when it will be at its end."""

import collections
import math
import time

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
