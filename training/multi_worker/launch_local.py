"""Starts all workers of a training on this machine, to try out what a cluster will do.

  python training/multi_worker/launch_local.py --workers 2 train RECIPE.yaml --run DIR

What comes after the options is the command of each worker, without `keras-transformer`. Each gets
its TF_CONFIG, with ports on the loopback that are free. SIGTERM and Ctrl-C are passed on: the
training saves and ends.

When a worker is lost, the others end with exit code 1. With --restarts all of them are then started
again, as a cluster would do it, and go on from the last checkpoint.
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

COMMAND = [str(pathlib.Path(sys.executable).with_name("keras-transformer"))]
# A mistake in the recipe and a wish to stop are no reasons to start again; a loss of a worker is.
FINAL_CODES = (0, 2, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP)
LOOK_SECONDS = 0.1


def free_ports(count):
    """Returns ports of the loopback that nobody uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def cluster_configs(workers):
    """Returns the TF_CONFIG of each worker: all addresses, and which of them is its own."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(workers)
    ]


def start(workers, command):
    """Starts all workers and returns their processes."""
    # Standard output gets the summary, which is the first worker's; all may complain.
    return [
        subprocess.Popen(
            [*COMMAND, *command],
            env={**os.environ, "TF_CONFIG": config},
            stdout=None if number == 0 else subprocess.DEVNULL,
        )
        for number, config in enumerate(cluster_configs(workers))
    ]


def wait(processes):
    """Waits for all workers and returns the first exit code that is not 0, or 0."""
    first = 0
    running = list(processes)
    while running:
        for process in [each for each in running if each.poll() is not None]:
            running.remove(process)
            first = first or process.returncode
            print(f"Process {process.pid}: exit code {process.returncode}", file=sys.stderr)
        time.sleep(LOOK_SECONDS)
    return first


def pass_signals_on(processes):
    """SIGTERM goes to all workers; Ctrl-C has come to them already, from the terminal."""

    def pass_on(number, frame):
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: None)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, help="how many (default: 2)")
    parser.add_argument(
        "--restarts", type=int, default=0, help="how often to start again (default: never)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="train RECIPE.yaml …")
    options = parser.parse_args(arguments)
    if not options.command or options.workers < 1:
        parser.error("give a number of workers of at least 1, and a command: train RECIPE.yaml")
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
