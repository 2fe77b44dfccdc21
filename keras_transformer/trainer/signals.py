"""Ctrl-C and its like: answered at once, obeyed when nothing is lost by it."""

import contextlib
import os
import signal
import sys
import threading
import time


class TrainingStopped(Exception):  # noqa: N818
    """Says that everything up to an update is saved; the same command goes on from there.

    It is no error, but neither is there a result.

    Attributes:
        step: the update after which the training was saved.
        exit_code: of the process, by the signal that came: see `StopRequest.exit_code`.
        is_dry_run: whether it was a dry run, of which nothing stays.
    """

    def __init__(self, step, exit_code, is_dry_run=False):
        super().__init__(step, exit_code, is_dry_run)
        self.step = step
        self.exit_code = exit_code
        self.is_dry_run = is_dry_run

    def __str__(self):
        if self.is_dry_run:
            return f"Stopped at update {self.step:,}. Nothing is kept of a dry run."
        return f"Saved at update {self.step:,}. The same command goes on from there."


class TrainingFailed(RuntimeError):  # noqa: N818
    """The training has failed for a reason that lies in its numbers, not in what the user gave.

    A loss that is not finite, for example. The message is one line: after which update, what
    happened, what may help. The command line prints it without a traceback and exits with code 1.
    """


class StopSignal(KeyboardInterrupt):
    """Raised in the main thread where a signal needs no patience: nothing is there to be saved.

    It is a `KeyboardInterrupt` whichever signal it was, so that it passes all that handles errors
    and meets all that tidies up.

    Attributes:
        signal: its number.
        exit_code: of the process: 128 more than the signal's number, as shells have it.
    """

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.signal = number
        self.exit_code = 128 + number


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# `timeout`, shells and job schedulers send a signal to a process and to its group: it comes twice
# within milliseconds. A person who presses Ctrl-C again takes longer.
_SAME_SIGNAL_SECONDS = 0.3
# A stop at once that takes longer than this is announced.
_SILENCE_SECONDS = 0.5


class StopRequest:
    """Notes that the user, or the machine, wants the training to stop.

    Inside the `with` block, SIGINT (Ctrl-C), SIGTERM and SIGHUP no longer end the process: the
    first is answered with a line on standard error, and the training loop, which looks at `signal`
    after each piece of work, saves and ends. The second one ends the process at once.

    Python runs its signal handlers between two of its own instructions, and a training step may be
    minutes of TensorFlow's. So a thread reads the signals from a pipe (`signal.set_wakeup_fd`),
    answers the first and obeys the second while the main thread is still at work.

    A signal that is ignored when the block is entered, as SIGHUP under `nohup`, stays ignored. In
    another thread than the main one, which cannot have signals, only `request` has an effect.

    Example:

    >>> with StopRequest(answer=print) as stop:
    ...     for step in range(1, 1000):
    ...         if step == 3:
    ...             stop.request(signal.SIGTERM)
    ...         if stop.signal is not None:
    ...             break
    Stopping after this update and saving (SIGTERM); a second signal stops at once.
    >>> step, stop.exit_code
    (3, 143)

    Args:
        answer: a function of a text that shows it to the user, from any thread, for example
            `TrainingReport.say`. By default it is written to standard error.
    """

    def __init__(self, answer=None):
        self.signal = None
        self._answer = answer or _write_to_standard_error
        self._is_patient = True
        self._has_raised = False
        self._first_came = None
        self._old_handlers = {}
        self._old_wakeup = None
        self._pipe = None
        self._watcher = None
        self._speaker = None

    @property
    def exit_code(self):
        """128 more than the signal's number: 130, 143 or 129; None if there was no request."""
        return None if self.signal is None else 128 + self.signal

    def request(self, number):
        """Notes a wish to stop as if a signal had come; after the first it does nothing."""
        if self.signal is None:
            self.signal = signal.Signals(number)
            self._say(self._announcement())

    @contextlib.contextmanager
    def stop_at_once(self):
        """Inside this block a signal raises `StopSignal`: there is nothing to be saved.

        So does a request that has come before.
        """
        self._is_patient = False
        try:
            if self.signal is not None:
                self._raise()
            yield
        finally:
            self._is_patient = not self._has_raised

    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            return self
        # None stands for a handler that is not Python's: it could not be put back.
        wanted = [
            number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)
        ]
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._watcher = threading.Thread(target=self._watch, name="stop request", daemon=True)
        self._watcher.start()
        self._old_wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        for number in wanted:
            self._old_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_):
        if self._pipe is None:
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._pipe[1])
        self._watcher.join()
        os.close(self._pipe[0])
        self._pipe = None
        self._old_handlers = {}
        if self._speaker is not None:
            if self._has_raised:
                self._speaker.cancel()
            # What was said comes before what is said next, if anybody listens.
            self._speaker.join(timeout=1)

    def _handle(self, number, frame):
        """Runs in the main thread, when it is back from whatever it is doing."""
        if not self._is_patient:
            self.signal = self.signal or signal.Signals(number)
            self._raise()

    def _raise(self):
        # Once: what tidies up after it is not to be disturbed by the same signal.
        if not self._has_raised:
            self._has_raised = True
            raise StopSignal(self.signal)

    def _watch(self):
        """Runs in a thread of its own: reads the numbers of signals until the pipe is closed."""
        while numbers := os.read(self._pipe[0], 64):
            for number in numbers:
                if number in self._old_handlers:
                    self._receive(number)

    def _receive(self, number):
        now = time.monotonic()
        if self._first_came is None:
            self._first_came = now
            self.signal = self.signal or signal.Signals(number)
            # Where nothing is to be saved, the main thread is most often gone before it is said.
            # In a thread: nobody may be reading, and the second signal is to be seen all the same.
            silence = 0 if self._is_patient else _SILENCE_SECONDS
            self._speaker = threading.Timer(silence, self._say, [self._announcement()])
            self._speaker.daemon = True
            self._speaker.start()
        elif now - self._first_came > _SAME_SIGNAL_SECONDS:
            _end_process(128 + number)

    def _announcement(self):
        if not self._is_patient:
            return "Stopping; press Ctrl-C again to stop without tidying up."
        if self.signal == signal.SIGINT:
            return "Stopping after this update and saving; press Ctrl-C again to stop at once."
        return (
            f"Stopping after this update and saving ({self.signal.name}); a second signal stops at "
            "once."
        )

    def _say(self, text):
        # Standard error may be a pipe that nobody reads any more, or a terminal that is gone.
        with contextlib.suppress(OSError, ValueError):
            self._answer(text)


def _write_to_standard_error(text):
    if sys.stderr is not None:  # it is None if it was closed before Python started
        print(text, file=sys.stderr, flush=True)


def _end_process(exit_code):
    """Ends the process without a farewell; on a terminal the next prompt has a line of its own."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")
    os._exit(exit_code)
