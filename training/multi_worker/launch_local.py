"""Starts all workers of a training on this machine, to test a multi-worker training.

  python training/multi_worker/launch_local.py --workers 2 train RECIPE.yaml --run DIR

The arguments after the options are the command of each worker, without `keras-transformer`. Each
worker gets its TF_CONFIG, with free ports of the loopback interface. SIGTERM and Ctrl-C are passed
on: training saves and ends.

When a worker is lost, the others end with exit code 1. With --restarts, all of them are started
again, as a cluster does, and resume from the last checkpoint.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

COMMAND = [str(pathlib.Path(sys.executable).with_name("keras-transformer"))]
# Workers are restarted after the loss of a worker, not after a mistake or an interruption.
FINAL_CODES = (0, 2, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP)
POLL_SECONDS = 0.1


def free_ports(count: int) -> list[int]:
    """Returns free ports of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def cluster_configs(workers: int) -> list[str]:
    """Returns the TF_CONFIG of each worker: all addresses, and the worker's own index."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(workers)
    ]


def start(workers: int, command: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Starts all workers and returns their processes."""
    # Only the first worker prints a summary; errors of all workers are shown.
    return [
        subprocess.Popen(
            [*COMMAND, *command],
            env={**os.environ, "TF_CONFIG": config},
            stdout=None if number == 0 else subprocess.DEVNULL,
        )
        for number, config in enumerate(cluster_configs(workers))
    ]


def wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Waits for all workers and returns the first exit code that is not 0, or 0."""
    first = 0
    running = list(processes)
    while running:
        for process in [each for each in running if each.poll() is not None]:
            running.remove(process)
            first = first or process.returncode
            print(f"Process {process.pid}: exit code {process.returncode}", file=sys.stderr)
        time.sleep(POLL_SECONDS)
    return first


def pass_signals_on(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Passes SIGTERM on to all workers; the terminal sends Ctrl-C to them itself."""

    def pass_on(number: int, frame: object) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default: 2)")
    parser.add_argument(
        "--restarts", type=int, default=0, help="maximum number of restarts (default: 0)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="train RECIPE.yaml …")
    options = parser.parse_args(arguments)
    if not options.command or options.workers < 1:
        parser.error("expected at least one worker and a command, such as: train RECIPE.yaml")
    for restarts_left in range(options.restarts, -1, -1):
        processes = start(options.workers, options.command)
        pass_signals_on(processes)
        names = ", ".join(str(process.pid) for process in processes)
        print(f"Workers are the processes {names}.", file=sys.stderr)
        code = wait(processes)
        if code in FINAL_CODES or not restarts_left:
            break
        print("Starting all workers again.", file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
