"""Stop signals during a training."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import types

import pytest

from keras_transformer.trainer import signals
from keras_transformer.trainer.signals import SIGNALS, StopRequest, StopSignal

ANSWER = "Stopping after this step and saving; press Ctrl-C again to stop at once."


@pytest.fixture(autouse=True)
def default_handlers():
    """Restores handlers: a shell that runs the tests in the background ignores SIGINT."""
    old = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


def wait_for(stop):
    """Waits until the signal has been recorded, which another thread does."""
    while stop.signal is None:
        threading.Event().wait(0.001)


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_is_recorded_and_answered(number):
    answers = []
    with StopRequest(answers.append) as stop:
        assert (stop.signal, stop.exit_code) == (None, None)
        signal.raise_signal(number)
        wait_for(stop)
    assert (stop.signal, stop.exit_code) == (number, 128 + number)
    (answer,) = answers
    assert (answer == ANSWER) == (number == signal.SIGINT)
    assert "this step" in answer


def test_handlers_and_wakeup_are_restored():
    def handler(number, frame):
        raise RuntimeError("This must not be called.")

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    old = signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGTERM, handler)
    try:
        with contextlib.suppress(ZeroDivisionError), StopRequest():
            assert signal.getsignal(signal.SIGTERM) is not handler
            raise ZeroDivisionError
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        assert signal.set_wakeup_fd(old) == writing
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("number", SIGNALS)
def test_ignored_signal_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with StopRequest() as stop:
        signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    assert stop.signal is None


def test_other_signal_is_no_request():
    old = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, old)
    assert stop.signal is None


def test_other_thread_obeys_requests_only(capsys):
    seen = []

    def work():
        with StopRequest() as stop:
            seen.append(signal.getsignal(signal.SIGINT))
            stop.request(signal.SIGINT)
            stop.request(signal.SIGTERM)
            seen.append(stop.exit_code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler, 130]
    assert capsys.readouterr() == ("", ANSWER + "\n")


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("closed file")])
def test_answer_that_fails_is_ignored(error):
    def answer(text):
        raise error

    with StopRequest(answer) as stop:
        stop.request(signal.SIGHUP)
    assert stop.exit_code == 129


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_raises_if_there_is_nothing_to_save(number):
    answers = []

    def work():
        with StopRequest(answers.append) as stop, stop.stop_at_once():
            signal.raise_signal(number)
            threading.Event().wait()

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert isinstance(caught.value, StopSignal)
    assert (caught.value.signal, caught.value.exit_code) == (number, 128 + number)
    assert answers == []


def test_second_signal_does_not_interrupt_the_cleanup():
    cleaned = []

    def work():
        with StopRequest() as stop, stop.stop_at_once():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                # `timeout` signals the process and its group.
                signal.raise_signal(signal.SIGTERM)
                cleaned.append(True)

    with pytest.raises(StopSignal):
        work()
    assert cleaned


def test_earlier_request_raises_if_there_is_nothing_to_save():
    with StopRequest(lambda text: None) as stop:
        stop.request(signal.SIGTERM)
        with pytest.raises(StopSignal), stop.stop_at_once():
            pytest.fail("This must not be reached.")


def test_slow_cleanup_is_announced(monkeypatch):
    monkeypatch.setattr(signals, "_SILENCE_SECONDS", 0)
    answers = []
    announced = threading.Event()

    def answer(text):
        answers.append(text)
        announced.set()

    def work():
        with StopRequest(answer) as stop, stop.stop_at_once():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                announced.wait()

    with pytest.raises(StopSignal):
        work()
    assert len(answers) == 1


def test_signal_is_recorded_again_after_stop_at_once():
    with StopRequest(lambda text: None) as stop:
        with stop.stop_at_once():
            pass
        signal.raise_signal(signal.SIGINT)
        wait_for(stop)
    assert stop.exit_code == 130


def test_same_signal_twice_within_a_moment_is_one(monkeypatch):
    """`timeout` and shells signal a process and its group."""
    ends, times = [], [100.0, 100.2, 100.4]
    looked = threading.Semaphore(0)

    def clock():
        looked.release()
        return times.pop(0)

    monkeypatch.setattr(signals, "time", types.SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(signals, "_end_process", ends.append)
    with StopRequest(lambda text: None):
        for _ in range(len(times)):
            assert ends == []
            signal.raise_signal(signal.SIGTERM)
            looked.acquire()
    assert ends == [143]


# Tests with processes. Their main thread waits inside C code, where Python runs no handlers.

PROGRAM = """
import ctypes, os, sys, threading
from keras_transformer.trainer.signals import StopRequest

library = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)

def unlock_on_request():
    sys.stdin.readline()
    library.pthread_mutex_unlock(mutex)

with StopRequest() as stop:
    library.pthread_mutex_lock(mutex)
    threading.Thread(target=unlock_on_request, daemon=True).start()
    print("at work", flush=True)
    library.pthread_mutex_lock(mutex)
    while stop.signal is None:
        pass
    print("saved", flush=True)
# Python's own end turns a broken pipe into exit code 120.
os._exit(stop.exit_code)
"""


@contextlib.contextmanager
def process_at_work(prepare=lambda: None, **settings):
    def reset_and_prepare():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        prepare()

    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=reset_and_prepare,
        **settings,
    )
    with process:
        assert process.stdout.readline() == "at work\n"
        yield process
        process.kill()


def finish(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.read() == "saved\n"
    return process.wait()


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_is_answered_inside_c_code_and_second_ends_the_process(number):
    with process_at_work(stderr=subprocess.PIPE) as process:
        process.send_signal(number)
        assert "this step" in process.stderr.readline()
        # Long enough not to be taken for the same signal.
        threading.Event().wait(signals._SAME_SIGNAL_SECONDS + 0.05)
        process.send_signal(number)
        assert process.wait() == 128 + number
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_process_saves_after_the_first_signal():
    with process_at_work(stderr=subprocess.PIPE) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == ANSWER + "\n"
        assert finish(process) == 130
        assert process.stderr.read() == ""


def test_closed_standard_error_is_ignored():
    with process_at_work(prepare=lambda: os.close(2)) as process:
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 143


def test_standard_error_without_a_reader_is_ignored():
    reading, writing = os.pipe()
    os.close(reading)
    with process_at_work(stderr=writing) as process:
        os.close(writing)
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 143
