"""A training on a terminal: one line that moves, and above it what is worth keeping."""

import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from keras_transformer.printable import shown
from keras_transformer.trainer.progress.figures import duration
from keras_transformer.trainer.progress.forgiving_stream import ForgivingStream
from keras_transformer.trainer.progress.pace import Pace
from keras_transformer.trainer.progress.status_line import Activity, StatusLine
from keras_transformer.trainer.progress.summary import print_summary
from keras_transformer.trainer.progress.training_report import TrainingReport


class TerminalReport(TrainingReport):
    """Shows stages with a spinner and updates with a bar, loss, tokens a second and time left.

    Colours are left out where the environment has NO_COLOR.

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
