"""Stop signals (Ctrl-C, SIGTERM, SIGHUP), and the exceptions of stopped and failed trainings."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self


class TrainingStopped(Exception):  # noqa: N818
    """Raised when training was interrupted and everything up to a step is saved; not an error.

    Args:
        step: The step at which training was saved.
        exit_code: Exit code of the process, 128 more than the number of the signal.
        is_dry_run: Whether it was a dry run, of which nothing is kept. Default False.
    """

    def __init__(self, step: int, exit_code: int, is_dry_run: bool = False) -> None:
        super().__init__(step, exit_code, is_dry_run)
        self.step = step
        self.exit_code = exit_code
        self.is_dry_run = is_dry_run

    def __str__(self) -> str:
        if self.is_dry_run:
            return f"Interrupted at step {self.step:,}; a dry run saves nothing."
        saved = f"Interrupted; saved at step {self.step:,}."
        return f"{saved} Run the same command to resume from there."


class TrainingFailed(RuntimeError):  # noqa: N818
    """Raised when training fails for a reason that is not a user's mistake, such as a NaN loss."""


class StopSignal(KeyboardInterrupt):
    """Raised in the main thread by any stop signal while there is nothing to save.

    Args:
        number: Number of the signal. The exit code is 128 more, as in shells.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number
        self.exit_code: int = 128 + number


SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# `timeout`, shells and job schedulers send a signal to a process and to its group, so that it comes
# twice within milliseconds. A person who presses Ctrl-C again takes longer.
_SAME_SIGNAL_SECONDS = 0.3
# An immediate stop is announced if it takes longer than this.
_SILENCE_SECONDS = 0.5


class StopRequest:
    """Records a request of the user, or of the machine, to stop training.

    Inside the `with` block, SIGINT (Ctrl-C), SIGTERM and SIGHUP do not end the process: the first
    signal is acknowledged with a line, and the training loop, which checks `signal` after each
    call, saves and stops. The second signal ends the process at once. A signal that is ignored
    already, such as SIGHUP under `nohup`, stays ignored. In other threads only `request` has an
    effect.

    Python runs signal handlers between two bytecode instructions, but a call of a compiled function
    may take minutes. Therefore a thread reads the signals from a pipe (`signal.set_wakeup_fd`),
    acknowledges the first signal, and ends the process at the second, while the main thread is
    busy.

    Args:
        answer: Function that shows a text to the user, from any thread. Default: standard error.

    Attributes:
        signal: The signal that came first, or None.
    """

    def __init__(self, answer: Callable[[str], None] | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._answer = answer or _write_to_standard_error
        self._is_patient = True
        self._has_raised = False
        self._first_came: float | None = None
        self._old_handlers: dict[int, Any] = {}
        self._old_wakeup = self._pipe_end = -1
        self._watcher: threading.Thread | None = None
        self._speaker: threading.Timer | None = None

    @property
    def exit_code(self) -> int | None:
        """128 more than the signal's number: 130, 143 or 129; None if there was no request."""
        return None if self.signal is None else 128 + self.signal

    def request(self, number: int) -> None:
        """Requests a stop as a signal would; requests after the first have no effect."""
        if self.signal is None:
            self.signal = signal.Signals(number)
            self._announce(self._is_patient)

    @contextlib.contextmanager
    def stop_at_once(self) -> Iterator[None]:
        """Context in which a signal, or an earlier request, raises `StopSignal` immediately."""
        self._is_patient = False
        try:
            if self.signal is not None:
                self._raise()
            yield
        finally:
            self._is_patient = not self._has_raised

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        pipe, self._pipe_end = os.pipe()
        os.set_blocking(self._pipe_end, False)
        self._watcher = threading.Thread(target=self._watch, args=[pipe], daemon=True)
        self._watcher.start()
        self._old_wakeup = signal.set_wakeup_fd(self._pipe_end, warn_on_full_buffer=False)
        for number in SIGNALS:
            # None means a handler that was not installed by Python and could not be restored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._old_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is None:
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._pipe_end)
        self._watcher.join()
        self._watcher = None
        self._old_handlers = {}
        if self._speaker is not None:
            if self._has_raised:
                self._speaker.cancel()
            # The announcement precedes later output. The timeout is for a reader that has ended.
            self._speaker.join(timeout=1)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread as soon as that executes Python code again."""
        if not self._is_patient:
            self.signal = self.signal or signal.Signals(number)
            self._raise()

    def _raise(self) -> None:
        # Only once: the same signal must not interrupt the cleanup that follows.
        if not self._has_raised and self.signal is not None:
            self._has_raised = True
            raise StopSignal(self.signal)

    def _watch(self, pipe: int) -> None:
        """Reads numbers of signals in its own thread until the other end of the pipe is closed."""
        while numbers := os.read(pipe, 64):
            for number in numbers:
                if number in self._old_handlers:
                    self._receive(number)
        os.close(pipe)

    def _receive(self, number: int) -> None:
        now = time.monotonic()
        if self._first_came is None:
            self._first_came = now
            self.signal = self.signal or signal.Signals(number)
            # If there is nothing to save, the process usually ends before the announcement. That
            # has its own thread, because it must not block the second signal.
            silence = 0 if self._is_patient else _SILENCE_SECONDS
            self._speaker = threading.Timer(silence, self._announce, [self._is_patient])
            self._speaker.daemon = True
            self._speaker.start()
        elif now - self._first_came > _SAME_SIGNAL_SECONDS:
            _end_process(128 + number)

    def _announce(self, is_patient: bool) -> None:
        if not is_patient:
            text = "Stopping; press Ctrl-C again to stop without cleanup."
        elif self.signal is None or self.signal == signal.SIGINT:
            text = "Stopping after this step and saving; press Ctrl-C again to stop at once."
        else:
            name = self.signal.name
            text = f"Stopping after this step and saving ({name}); a second signal stops at once."
        # Standard error may be a pipe without a reader, or a terminal that is gone.
        with contextlib.suppress(OSError, ValueError):
            self._answer(text)


def _write_to_standard_error(text: str) -> None:
    if sys.stderr is not None:  # it is None if it was closed before Python started
        print(text, file=sys.stderr, flush=True)


def _end_process(exit_code: int) -> None:
    """Ends the process without cleanup; on a terminal, the next prompt starts on its own line."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")
    os._exit(exit_code)
