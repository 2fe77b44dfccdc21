"""Measures the server under load, beside the bare limit of the model and a naive server.

  python -m training.serving.load saved_models/dates
  python -m training.serving.load saved_models/dates --texts dates.txt --workers 2 --seconds 20
  python -m training.serving.load saved_models/dates --clients 200 --seconds 60 --servers threads

The bare limit is the exported model in a loop, in a session with one thread, without a server:
texts per second with one caller, and with as many as there are workers. Each answer of a server is
compared with that of the bare model. Servers: `threads` and `processes` are the kinds of workers of
`keras-transformer serve`; `naive` is `naive_server.py`. The clients are on the same cores as the
server, and their share of the time counts for it.
"""

import argparse
import asyncio
import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer._utils.process import available_cores, command_line
from training.serving.clients import Result, measure

SERVERS = ("threads", "processes", "naive")
_START_SECONDS = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints tables, and returns 1 if an answer was wrong or lost."""
    options = _parser().parse_args(arguments)
    from keras_transformer.export.versions import resolve_version
    from keras_transformer.serving.workers import import_operations

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import_operations()
    directory = resolve_version(options.directory)
    texts = read_texts(directory, options.texts)
    answers = right_answers(directory, texts)
    print(f"{len(answers)} texts, {options.workers} workers, {len(available_cores())} cores\n")
    measured: dict[str, Any] = {}
    if not options.no_bare:
        measured["bare"] = bare_limits(directory, texts, options.workers, options.seconds)
        print("bare limit, texts/s        " + "".join(f"{n:>10}" for n in (1, 8, 64)))
        for name, rates in measured["bare"].items():
            print(f"{name:<27}" + "".join(f"{rate:>10,.0f}" for rate in rates.values()))
        print()
    print(
        f"{'server':<11}{'clients':>8}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'wrong':>7}"
        f"{'lost':>6}{'refused':>9}{'health p50 ms':>15}{'memory MiB':>12}"
    )
    failed = 0
    for kind in options.servers:
        with running_server(kind, directory, options.workers) as (process, port):
            path = f"/v1/models/{directory.absolute().parent.name}:predict"
            asyncio.run(measure("127.0.0.1", port, path, answers, 8, 2.0))  # warm
            for clients in options.clients:
                result = asyncio.run(
                    measure("127.0.0.1", port, path, answers, clients, options.seconds)
                )
                memory = resident_mib(process.pid)
                measured.setdefault(kind, []).append(as_json(result, memory))
                print(row(kind, result, memory), flush=True)
                failed += result.wrong + result.lost
    if options.json is not None:
        pathlib.Path(options.json).write_text(json.dumps(measured, indent=2) + "\n")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.serving.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cores = len(available_cores())
    add = parser.add_argument
    add("directory", metavar="DIR", help="an export, <name>/<version> or <name>")
    add("--texts", metavar="FILE", help="a text a line (default: those of the golden pairs)")
    add("--workers", type=int, default=cores, help="default: the number of cores")
    add("--servers", nargs="+", choices=SERVERS, default=SERVERS)
    add("--clients", nargs="+", type=int, default=(1, 8, 64, 200))
    add("--seconds", type=float, default=10.0, help="time of each measurement (default: 10)")
    add("--no-bare", action="store_true", help="leave out the bare limit")
    add("--json", metavar="FILE", help="write the numbers as JSON, too")
    return parser


def read_texts(directory: pathlib.Path, path: str | None) -> list[str]:
    """Returns the texts to ask for, without blank ones."""
    if path is not None:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    else:
        content = (directory / "assets.extra" / "manifest.json").read_text(encoding="utf-8")
        pairs = json.loads(content)["golden"]
        lines = [
            text
            for pair in pairs
            if pair["signature"] == "serving_default"
            for text in pair["inputs"]["text"]
            if isinstance(text, str)
        ]
    return list(dict.fromkeys(line for line in lines if line.strip()))


def right_answers(directory: pathlib.Path, texts: list[str]) -> Mapping[str, str]:
    """Returns the answer of the bare model to each text."""
    from keras_transformer.serving.servable import Servable

    servable = Servable(directory)
    answers = {}
    for text in texts:
        (found,) = servable.run("serving_default", [_batch([text])])
        assert isinstance(found, dict)
        answers[text] = found["text"][0].decode("utf-8", "replace")
    servable.close()
    return answers


def bare_limits(
    directory: pathlib.Path, texts: list[str], callers: int, seconds: float
) -> dict[str, dict[int, float]]:
    """Returns texts per second by batch size, with one caller and with several."""
    from keras_transformer.serving.servable import Servable

    limits: dict[str, dict[int, float]] = {}
    for count in sorted({1, callers}):
        servable = Servable(directory, count)
        rates = limits[f"{count} caller{'s' if count > 1 else ''}"] = {}
        for size in (1, 8, 64):
            repeated = (texts * (-(-size * 16 // len(texts))))[: size * 16]
            batches = [_batch(repeated[at : at + size]) for at in range(0, len(repeated), size)]
            share = max(seconds / 3, 0.5)
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                calls = [pool.submit(_loop, servable, batches, share) for _ in range(count)]
                rates[size] = size * sum(call.result() for call in calls) / share
        servable.close()
    return limits


def _loop(servable: Any, batches: list[dict[str, np.ndarray]], seconds: float) -> int:
    servable.run("serving_default", [batches[0]])
    end, calls = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        servable.run("serving_default", [batches[calls % len(batches)]])
        calls += 1
    return calls


def _batch(texts: list[str]) -> dict[str, np.ndarray]:
    return {"text": np.array([text.encode() for text in texts], object)}


@contextlib.contextmanager
def running_server(
    kind: str, directory: pathlib.Path, workers: int
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Yields process and port of a server that answers; the process is ended by SIGTERM."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if kind == "naive":
        command = [sys.executable, "-m", "training.serving.naive_server", str(directory), str(port)]
    else:
        options = f"--port {port} --grpc-port -1 --workers {workers} --worker-kind {kind}"
        command = [*command_line(), "serve", str(directory), *options.split()]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            _wait_until_ready(process, port, output)
            yield process, port
        finally:
            process.terminate()
            process.wait(60)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, output: Any) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        url = f"http://127.0.0.1:{port}/healthz"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    output.seek(0)
    raise RuntimeError(f"The server did not start:\n{output.read().decode(errors='replace')}")


def resident_mib(pid: int) -> int:
    """Returns the resident memory of a process and its children, in MiB."""
    total = 0
    for number in [pid, *_children(pid)]:
        with contextlib.suppress(OSError):
            pages = pathlib.Path(f"/proc/{number}/statm").read_text().split()[1]
            total += int(pages) * os.sysconf("SC_PAGE_SIZE")
    return total >> 20


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        return [int(n) for task in tasks for n in (task / "children").read_text().split()]
    return []


def as_json(result: Result, memory: int) -> dict[str, Any]:
    """Returns the numbers of a result."""
    return {
        "clients": result.clients,
        "requests_per_second": result.rate,
        "p50_ms": result.percentile(0.5),
        "p99_ms": result.percentile(0.99),
        "wrong": result.wrong,
        "lost": result.lost,
        "statuses": dict(result.statuses),
        "health_p50_ms": 1e3 * result.health[len(result.health) // 2],
        "memory_mib": memory,
    }


def row(kind: str, result: Result, memory: int) -> str:
    """Returns the line of the table."""
    refused = sum(count for status, count in result.statuses.items() if status in (429, 503))
    health = 1e3 * result.health[len(result.health) // 2]
    return (
        f"{kind:<11}{result.clients:>8}{result.rate:>12,.0f}{result.percentile(0.5):>9.2f}"
        f"{result.percentile(0.99):>9.2f}{result.wrong:>7}{result.lost:>6}{refused:>9}"
        f"{health:>15.2f}{memory:>12}"
    )


if __name__ == "__main__":
    sys.exit(main())
