"""Dynamic batching without a timer: a free worker takes the requests that wait."""

import asyncio
import collections
import dataclasses
import math
import time
from collections.abc import Hashable
from typing import Any

import numpy as np

from keras_transformer.serving.errors import Code, RequestError
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.servable import Arrays, ServedSignature
from keras_transformer.serving.workers import Loaded, Workers

# Seconds between checks for requests whose deadline has passed.
_SWEEP = 0.1
_MOST_SECONDS_TO_WAIT = 30


@dataclasses.dataclass(eq=False, slots=True)
class _Entry:
    """A request, or a part of a large one, that waits or runs."""

    inputs: Arrays
    rows: int
    deadline: float
    arrived: float
    answer: "asyncio.Future[Arrays]"


@dataclasses.dataclass(eq=False, slots=True)
class _Queue:
    """The waiting requests for a signature of a version."""

    loaded: Loaded
    signature: ServedSignature
    model: str
    entries: "collections.deque[_Entry]"


class Batcher:
    """Collects requests into batches while all workers are busy.

    A request that finds a free worker runs at once, alone; it does not wait for a timer. When a
    worker becomes free, it takes the requests that wait for the same signature as the oldest one,
    up to `max_batch_rows`. Only signatures whose rows are independent are batched; a larger request
    for one is split.

    Args:
        workers: the `Workers`.
        max_batch_rows: largest number of rows of a batch. Default 64.
        max_waiting_rows: number of rows that may wait; further requests are refused. Default 4096.
        metrics: where batches are counted.
    """

    def __init__(
        self,
        workers: Workers,
        max_batch_rows: int = 64,
        max_waiting_rows: int = 4096,
        metrics: Metrics | None = None,
    ) -> None:
        self.workers = workers
        self.max_batch_rows = max_batch_rows
        self.max_waiting_rows = max_waiting_rows
        self.metrics: Metrics = metrics or Metrics()
        self.waiting_rows = 0
        self._free = workers.count
        self._queues: dict[Hashable, _Queue] = {}
        self._unanswered: set[_Entry] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._seconds_a_row = 0.0

    async def submit(
        self,
        model: str,
        loaded: Loaded,
        signature: ServedSignature,
        inputs: Arrays,
        deadline: float = math.inf,
    ) -> Arrays:
        """Returns the outputs of a request; raises a `RequestError` if it fails.

        If the caller is cancelled while the request waits, the request is dropped.

        Args:
            model: name of the model, for the metrics.
            loaded: the version.
            signature: one of its signatures.
            inputs: the inputs by name; they are checked.
            deadline: time of `time.monotonic` after which the request has failed.
        """
        rows = signature.rows(inputs)
        if self.waiting_rows and self.waiting_rows + rows > self.max_waiting_rows:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"{self.waiting_rows} rows are waiting; at most {self.max_waiting_rows} may wait.",
                retry_after=self._seconds_to_wait(),
            )
        parts = [inputs]
        if signature.is_batched and rows > self.max_batch_rows:
            starts = range(0, rows, self.max_batch_rows)
            parts = [_rows_of(inputs, start, start + self.max_batch_rows) for start in starts]
        queue = self._queues.get((loaded.key, signature.name))
        if queue is None:
            queue = _Queue(loaded, signature, model, collections.deque())
            self._queues[loaded.key, signature.name] = queue
        loop = asyncio.get_running_loop()
        now = time.monotonic()
        entries = []
        for part in parts:
            size = signature.rows(part) if len(parts) > 1 else rows
            entries.append(_Entry(part, size, deadline, now, loop.create_future()))
        queue.entries.extend(entries)
        self._unanswered.update(entries)
        self.waiting_rows += rows
        self._kick()
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP, self._sweep)
        try:
            if len(entries) == 1:
                return await entries[0].answer
            answers = await asyncio.gather(*(entry.answer for entry in entries))
            return {
                name: np.concatenate([answer[name] for answer in answers])
                for name in signature.outputs
            }
        finally:
            for entry in entries:
                if not entry.answer.cancel() and not entry.answer.cancelled():
                    entry.answer.exception()  # otherwise, asyncio logs that nobody retrieved it
                self._unanswered.discard(entry)

    def forget(self, loaded: Loaded) -> None:
        """Drops the queues of a version that no request uses."""
        for key in [key for key, queue in self._queues.items() if queue.loaded is loaded]:
            del self._queues[key]

    def _kick(self) -> None:
        """Gives waiting requests to free workers."""
        while self._free:
            queue = self._oldest()
            if queue is None:
                return
            batch = self._take(queue)
            if batch:
                self._start(queue, batch)

    def _oldest(self) -> _Queue | None:
        """Returns the queue whose first request has waited longest."""
        waiting = [queue for queue in self._queues.values() if queue.entries]
        return min(waiting, key=lambda queue: queue.entries[0].arrived, default=None)

    def _take(self, queue: _Queue) -> list[_Entry]:
        """Removes requests for a batch from a queue, and drops those that nobody waits for."""
        batch: list[_Entry] = []
        rows = 0
        now = time.monotonic()
        while queue.entries:
            entry = queue.entries[0]
            is_wanted = not entry.answer.done()
            if is_wanted and batch:
                is_full = rows + entry.rows > self.max_batch_rows
                if is_full or not queue.signature.is_batched:
                    break
            queue.entries.popleft()
            self.waiting_rows -= entry.rows
            if not is_wanted:
                continue
            if entry.deadline < now:
                entry.answer.set_exception(_too_late())
                continue
            batch.append(entry)
            rows += entry.rows
        return batch

    def _start(self, queue: _Queue, batch: list[_Entry]) -> None:
        self._free -= 1
        started = time.monotonic()
        for entry in batch:
            self.metrics.queueing_latency.observe(started - entry.arrived)
        requests = [entry.inputs for entry in batch]
        running = self.workers.run(queue.loaded, queue.signature.name, requests)
        running.add_done_callback(lambda done: self._finish(queue, batch, started, done))

    def _finish(
        self,
        queue: _Queue,
        batch: list[_Entry],
        started: float,
        done: "asyncio.Future[list[Arrays | RequestError]]",
    ) -> None:
        self._free += 1
        rows = sum(entry.rows for entry in batch)
        seconds = time.monotonic() - started
        self._seconds_a_row += 0.1 * (seconds / max(rows, 1) - self._seconds_a_row)
        self.metrics.record_batch(queue.model, queue.signature.name, rows, seconds)
        self._kick()  # before the answers are written, which takes time
        answers: list[Any]
        if done.cancelled():
            answers = [RequestError(Code.UNAVAILABLE, "The server is stopping.")] * len(batch)
        elif done.exception() is not None:
            self.metrics.internal_errors += 1
            answers = [RequestError(Code.INTERNAL, "The computation failed.")] * len(batch)
        else:
            answers = done.result()
        for entry, answer in zip(batch, answers, strict=True):
            if entry.answer.done():
                continue
            if isinstance(answer, RequestError):
                entry.answer.set_exception(answer)
            else:
                entry.answer.set_result(answer)

    def _sweep(self) -> None:
        """Answers requests whose deadline has passed, whether they wait or run."""
        self._sweeper = None
        now = time.monotonic()
        for entry in list(self._unanswered):
            if entry.deadline < now and not entry.answer.done():
                entry.answer.set_exception(_too_late())
        for queue in self._queues.values():
            while queue.entries and queue.entries[0].answer.done():
                self.waiting_rows -= queue.entries.popleft().rows
        if self._unanswered:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(_SWEEP, self._sweep)

    def _seconds_to_wait(self) -> int:
        """Returns the estimated number of seconds until the present queue is empty."""
        seconds = self.waiting_rows * self._seconds_a_row / self.workers.count
        return min(max(math.ceil(seconds), 1), _MOST_SECONDS_TO_WAIT)


def _too_late() -> RequestError:
    return RequestError(Code.DEADLINE_EXCEEDED, "The deadline of the request has passed.")


def _rows_of(inputs: Arrays, start: int, end: int) -> Arrays:
    return {name: array[start:end] for name, array in inputs.items()}
