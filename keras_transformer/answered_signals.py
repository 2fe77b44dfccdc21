"""Signals that are answered by a function, for a while."""

import contextlib
import signal


@contextlib.contextmanager
def answered_signals(numbers, answer):
    """Inside this block signals call a function; afterwards they do what they did before.

    A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
        numbers: of the signals.
        answer: a function of a signal's number.
    """
    old = {
        number: signal.signal(number, lambda number, _: answer(number))
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
