"""One step of a comparison in a process of its own, so that its memory is its own."""

import signal
import subprocess

from keras_transformer.answered_signals import answered_signals
from keras_transformer.bench.processes import command_line

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_step(step, directory):
    """Runs `keras-transformer compare DIRECTORY --step STEP` and returns its exit code.

    What it tells goes to this process' standard error. Signals are passed on to it, and it is
    waited for: a training saves before it ends. Whatever becomes of it then, the exit code is that
    of the signal. It has a session of its own, or Ctrl-C in a terminal would reach it twice.

    Args:
        step: "plan" or "run".
        directory: of the comparison, or of the run.
    """
    process = subprocess.Popen(
        [*command_line(), "compare", str(directory), "--step", step],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked = []

    def pass_on(number):
        asked.append(number)
        process.send_signal(number)

    with answered_signals(_SIGNALS, pass_on):
        exit_code = process.wait()
    if asked:
        return 128 + asked[0]
    # Killed by a signal, as by the system when memory is short.
    return exit_code if exit_code >= 0 else 1
