"""A training in lines, for a file, a pipe or a dumb terminal."""

import time

from keras_transformer.printable import shown
from keras_transformer.trainer.progress.figures import countdown, metric_phrase
from keras_transformer.trainer.progress.forgiving_stream import ForgivingStream
from keras_transformer.trainer.progress.pace import Pace
from keras_transformer.trainer.progress.summary import print_summary
from keras_transformer.trainer.progress.training_report import TrainingReport

# A log of a day has at most 8,640 lines of updates.
_SECONDS_BETWEEN_LINES = 10

_METRICS = ("loss", "accuracy", "tokens_per_second")


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
            *(metric_phrase(name, logs[name]) for name in _METRICS if name in logs),
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
