"""Ctrl-C and its like during a training."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import types

import pytest

import keras_transformer
from keras_transformer.trainer import signals as stop_request
from keras_transformer.trainer.signals import SIGNALS, StopRequest, StopSignal

ANSWER = "Stopping after this update and saving; press Ctrl-C again to stop at once."


@pytest.fixture(autouse=True)
def default_handlers():
    """A shell that runs the tests in the background has SIGINT ignored."""
    old = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


def wait_for(stop):
    """Returns when the signal has been noted, which another thread does."""
    while stop.signal is None:
        threading.Event().wait(0.001)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_answered(number):
    answers = []
    with StopRequest(answers.append) as stop:
        assert (stop.signal, stop.exit_code) == (None, None)
        signal.raise_signal(number)
        wait_for(stop)
    assert (stop.signal, stop.exit_code) == (number, 128 + number)
    (answer,) = answers
    assert (answer == ANSWER) == (number == signal.SIGINT)
    assert answer.startswith("Stopping after this update and saving")


def test_handlers_and_wakeup_are_given_back():
    def handler(number, frame):
        raise RuntimeError("This is not to be called.")

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
def test_what_is_ignored_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with StopRequest() as stop:
        signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    assert stop.signal is None


def test_other_signals_are_no_requests():
    old = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, old)
    assert stop.signal is None


def test_in_another_thread_only_requests_count(capsys):
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
def test_an_answer_that_cannot_be_given_is_none(error):
    def answer(text):
        raise error

    with StopRequest(answer) as stop:
        stop.request(signal.SIGHUP)
    assert stop.exit_code == 129


@pytest.mark.parametrize("number", SIGNALS)
def test_where_nothing_is_to_be_saved_it_raises(number):
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


def test_it_does_not_raise_again_while_that_is_tidied_up():
    tidied = []

    def work():
        with StopRequest() as stop, stop.stop_at_once():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                # As `timeout` sends it, to the process and to its group.
                signal.raise_signal(signal.SIGTERM)
                tidied.append(True)

    with pytest.raises(StopSignal):
        work()
    assert tidied


def test_a_request_that_came_before_is_not_forgotten():
    with StopRequest(lambda text: None) as stop:
        stop.request(signal.SIGTERM)
        with pytest.raises(StopSignal), stop.stop_at_once():
            pytest.fail("This is not to be reached.")


def test_a_slow_end_is_announced(monkeypatch):
    monkeypatch.setattr(stop_request, "_SILENCE_SECONDS", 0)
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
    assert answers == ["Stopping; press Ctrl-C again to stop without tidying up."]


def test_patient_again_after_a_stage():
    with StopRequest(lambda text: None) as stop:
        with stop.stop_at_once():
            pass
        signal.raise_signal(signal.SIGINT)
        wait_for(stop)
    assert stop.exit_code == 130


def test_the_same_signal_twice_within_a_moment_is_one(monkeypatch):
    """As `timeout` and shells send it."""
    ends, times = [], [100.0, 100.2, 100.4]
    looked = threading.Semaphore(0)

    def clock():
        looked.release()
        return times.pop(0)

    monkeypatch.setattr(stop_request, "time", types.SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(stop_request, "_end_process", ends.append)
    with StopRequest(lambda text: None):
        for _ in range(len(times)):
            assert ends == []
            signal.raise_signal(signal.SIGTERM)
            looked.acquire()
    assert ends == [143]


# In processes of their own. They import no TensorFlow, which would take seconds: the package and
# the trainer are told not to. Their main thread waits inside C code, where Python runs no handlers.

PROGRAM = """
import ctypes, os, sys, threading, types
sys.argv[0] = "keras-transformer"
trainer = types.ModuleType("keras_transformer.trainer")
trainer.__path__ = [sys.argv[1]]
sys.modules[trainer.__name__] = trainer
from keras_transformer.trainer.signals import StopRequest

library = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)

def leave_when_told():
    sys.stdin.readline()
    library.pthread_mutex_unlock(mutex)

with StopRequest() as stop:
    library.pthread_mutex_lock(mutex)
    threading.Thread(target=leave_when_told, daemon=True).start()
    print("at work", flush=True)
    library.pthread_mutex_lock(mutex)
    while stop.signal is None:
        pass
    print("saved", flush=True)
# Not by way of Python's own end, which turns a broken pipe into 120.
os._exit(stop.exit_code)
"""


@contextlib.contextmanager
def process_at_work(prepare=lambda: None, **settings):
    def reset_and_prepare():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        prepare()

    folder = pathlib.Path(keras_transformer.__file__).with_name("trainer")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder],
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
def test_the_first_is_answered_inside_c_code_and_the_second_obeyed(number):
    with process_at_work(stderr=subprocess.PIPE) as process:
        process.send_signal(number)
        assert process.stderr.readline().startswith("Stopping after this update and saving")
        # Until it is an impatient person's, not the same one sent twice.
        threading.Event().wait(stop_request._SAME_SIGNAL_SECONDS + 0.05)
        process.send_signal(number)
        assert process.wait() == 128 + number
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_it_goes_on_until_it_is_saved():
    with process_at_work(stderr=subprocess.PIPE) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == ANSWER + "\n"
        assert finish(process) == 130
        assert process.stderr.read() == ""


def test_standard_error_that_is_closed():
    with process_at_work(prepare=lambda: os.close(2)) as process:
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 143


def test_standard_error_that_nobody_reads():
    reading, writing = os.pipe()
    os.close(reading)
    with process_at_work(stderr=writing) as process:
        os.close(writing)
        process.send_signal(signal.SIGTERM)
        assert finish(process) == 143
