"""Clients that ask a server as fast as it answers, and compare each answer with the right one."""

import asyncio
import collections
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson


class Result(NamedTuple):
    """What clients have measured.

    Attributes:
        clients: number of clients.
        seconds: how long they asked.
        answers: number of right answers.
        latencies: seconds from request to answer, of the right ones, sorted.
        wrong: number of answers with another text.
        lost: number of requests without an answer.
        statuses: number of answers by HTTP status.
        health: seconds of each request for /healthz during the load, sorted.
    """

    clients: int
    seconds: float
    answers: int
    latencies: list[float]
    wrong: int
    lost: int
    statuses: Mapping[int, int]
    health: list[float]

    @property
    def rate(self) -> float:
        """Right answers per second."""
        return self.answers / self.seconds

    def percentile(self, share: float) -> float:
        """Returns the latency, in ms, that this share of the answers does not exceed."""
        if not self.latencies:
            return float("nan")
        return 1e3 * self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)]


class _Connection:
    """A connection that is kept open."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._reader: Any = None
        self._writer: Any = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Returns status and body of the answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.lower().index(b"content-length:") + 15
        size = int(head[at : head.index(b"\r", at)])
        return int(head[9:12]), await self._reader.readexactly(size)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None


def request_bytes(method: str, path: str, content: Any = None) -> bytes:
    """Returns a whole HTTP request."""
    body = b"" if content is None else json.dumps(content).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def measure(
    host: str,
    port: int,
    path: str,
    answers: Mapping[str, str],
    clients: int,
    seconds: float,
    *,
    retry: Sequence[int] = (429, 503),
) -> Result:
    """Returns what clients measure that ask, one text a request, for some seconds.

    Args:
        host: address of the server.
        port: its port.
        path: path of predict.
        answers: right answer of each text.
        clients: number of clients, each with one connection and one request at a time.
        seconds: how long they ask.
        retry: statuses after which a client waits for a moment and asks again.
    """
    requests = [
        (request_bytes("POST", path, {"instances": [text]}), answer)
        for text, answer in answers.items()
    ]
    latencies: list[float] = []
    health: list[float] = []
    statuses: collections.Counter[int] = collections.Counter()
    counts = {"wrong": 0, "lost": 0}
    begin = time.perf_counter()
    end = begin + seconds

    async def ask(number: int) -> None:
        connection = _Connection(host, port)
        start = number * len(requests) // clients
        for request, answer in itertools.islice(itertools.cycle(requests), start, None):
            started = time.perf_counter()
            if started > end:
                break
            try:
                status, body = await connection.ask(request)
            except (OSError, EOFError, ValueError):
                counts["lost"] += 1
                connection.close()
                continue
            statuses[status] += 1
            if status == 200:
                prediction = orjson.loads(body)["predictions"][0]
                text = prediction["text"] if isinstance(prediction, dict) else prediction
                if text == answer:
                    latencies.append(time.perf_counter() - started)
                else:
                    counts["wrong"] += 1
            elif status in retry:
                await asyncio.sleep(0.05)
            else:
                counts["lost"] += 1
        connection.close()

    async def look() -> None:
        connection = _Connection(host, port)
        request = request_bytes("GET", "/healthz")
        while time.perf_counter() < end:
            started = time.perf_counter()
            await connection.ask(request)
            health.append(time.perf_counter() - started)
            await asyncio.sleep(0.1)
        connection.close()

    await asyncio.gather(look(), *(ask(number) for number in range(clients)))
    seconds = time.perf_counter() - begin
    found = sorted(latencies), counts["wrong"], counts["lost"], dict(statuses), sorted(health)
    return Result(clients, seconds, len(latencies), *found)
