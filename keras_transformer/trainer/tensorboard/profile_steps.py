"""Where the time of a few updates goes."""

import tensorflow as tf

from keras_transformer.checks import require_integer, require_positive_integer
from keras_transformer.trainer.tensorboard.event_callback import EventCallback

#: A run of its own, as the profiler puts a second event file beside what it writes.
PROFILE = "profile"


class ProfileSteps(EventCallback):
    """Profiles the updates from `first` to `last`, on request.

    They should not be the very first ones, in which TensorFlow still traces and compiles. Where
    several updates are made in one call, as with `steps_per_execution`, the calls in which both lie
    are profiled whole. TensorBoard shows the profile if its plugin is installed
    (`pip install tensorboard-plugin-profile`).

    Args:
        log_dir: the directory that is given to TensorBoard.
        first, last: numbers of updates, counted from 1.
    """

    def __init__(self, log_dir, first, last):
        super().__init__(log_dir)
        self.first = require_positive_integer("first", first)
        self.last = require_integer("last", last, minimum=self.first)
        self._is_running = False

    def on_train_begin(self, logs=None):
        self.start_or_stop()

    def on_train_batch_end(self, batch, logs=None):
        self.start_or_stop()

    def on_train_end(self, logs=None):
        self._stop()

    def start_or_stop(self):
        """Starts or stops the profiler, if an update has been made that it depends on."""
        step = self.step
        if step >= self.last:
            self._stop()
        elif step >= self.first - 1 and not self._is_running:
            tf.profiler.experimental.start(str(self.log_dir / PROFILE))
            self._is_running = True

    def _stop(self):
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False
