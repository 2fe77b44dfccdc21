"""Dynamic batching, with workers that are told when to answer."""

import asyncio
import time

import numpy as np
import pytest

from keras_transformer.serving.batcher import Batcher
from keras_transformer.serving.errors import Code, RequestError
from keras_transformer.serving.servable import ServedSignature, TensorSpec
from keras_transformer.serving.workers import Loaded

ROWS = TensorSpec("string", (None,))
UPPER = ServedSignature("upper", {"text": ROWS}, {"text": ROWS})
PADDED = ServedSignature("padded", {"text": ROWS}, {"x": TensorSpec("float32", (None, None))})
SCALAR = ServedSignature("scalar", {"x": TensorSpec("float32", ())}, {"x": ROWS})
LOADED = Loaded(0, {}, {})


class Workers:
    """Workers whose batches wait until the test answers them."""

    def __init__(self, count=1):
        self.count = count
        self.batches = []

    def run(self, loaded, signature, requests):
        future = asyncio.get_running_loop().create_future()
        self.batches.append(([request["text"].tolist() for request in requests], future))
        return future

    async def answer(self, number):
        batch, future = self.batches[number]
        future.set_result(
            [{"text": np.array([t.upper() for t in texts], object)} for texts in batch]
        )
        await settle()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def texts(*values):
    return {"text": np.array(values, object)}


def submit(batcher, *values, signature=UPPER, **options):
    return asyncio.ensure_future(
        batcher.submit("model", LOADED, signature, texts(*values), **options)
    )


def in_loop(test):
    def run():
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@in_loop
async def test_lone_request_runs_at_once_and_waiting_ones_together():
    workers = Workers()
    batcher = Batcher(workers)
    requests = [submit(batcher, b"a"), submit(batcher, b"b"), submit(batcher, b"c", b"d")]
    await settle()
    assert [batch for batch, _ in workers.batches] == [[[b"a"]]]
    assert batcher.waiting_rows == 3
    await workers.answer(0)
    assert [batch for batch, _ in workers.batches[1:]] == [[[b"b"], [b"c", b"d"]]]
    await workers.answer(1)
    answers = [(await request)["text"].tolist() for request in requests]
    assert answers == [[b"A"], [b"B"], [b"C", b"D"]]
    assert batcher.waiting_rows == 0


@in_loop
async def test_all_workers_are_used():
    workers = Workers(count=2)
    batcher = Batcher(workers)
    requests = [submit(batcher, b"a") for _ in range(3)]
    await settle()
    assert len(workers.batches) == 2
    for number in range(3):
        await workers.answer(number)
    await asyncio.gather(*requests)


@in_loop
async def test_batch_is_no_larger_than_allowed_and_large_requests_are_split():
    workers = Workers()
    batcher = Batcher(workers, max_batch_rows=4)
    first = submit(batcher, b"x")
    requests = [submit(batcher, *[b"%d" % n for n in range(10)]), submit(batcher, b"y", b"z")]
    await settle()
    for number in range(4):
        await workers.answer(number)
    sizes = [[len(request) for request in batch] for batch, _ in workers.batches]
    assert sizes == [[1], [4], [4], [2, 2]]
    assert (await requests[0])["text"].tolist() == [b"%d" % n for n in range(10)]
    assert (await requests[1])["text"].tolist() == [b"Y", b"Z"]
    await first


def test_only_signatures_with_independent_rows_are_batched():
    assert UPPER.is_batched
    assert not PADDED.is_batched
    assert not SCALAR.is_batched


@in_loop
async def test_requests_for_a_signature_that_is_not_batched_run_alone():
    workers = Workers()
    batcher = Batcher(workers, max_batch_rows=2)
    requests = [submit(batcher, b"a", signature=PADDED) for _ in range(2)]
    requests.append(submit(batcher, b"a", b"b", b"c", signature=PADDED))
    await settle()
    for number in range(3):
        await workers.answer(number)
    assert [len(batch) for batch, _ in workers.batches] == [1, 1, 1]
    await asyncio.gather(*requests)


@in_loop
async def test_full_queue_is_refused_with_a_time_to_wait():
    workers = Workers()
    batcher = Batcher(workers, max_waiting_rows=3)
    requests = [submit(batcher, b"a"), submit(batcher, b"b", b"c")]
    await settle()
    refused = submit(batcher, b"d", b"e")
    with pytest.raises(RequestError) as caught:
        await refused
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert caught.value.retry_after >= 1
    requests.append(submit(batcher, b"f"))  # one row still fits
    await settle()
    await workers.answer(0)
    await workers.answer(1)
    await asyncio.gather(*requests)


@in_loop
async def test_request_larger_than_the_queue_runs_when_nothing_waits():
    workers = Workers()
    batcher = Batcher(workers, max_waiting_rows=1)
    request = submit(batcher, b"a", b"b", b"c")
    await settle()
    await workers.answer(0)
    assert len((await request)["text"]) == 3


@in_loop
async def test_request_whose_caller_has_left_is_dropped():
    workers = Workers()
    batcher = Batcher(workers)
    requests = [submit(batcher, text) for text in (b"a", b"b", b"c")]
    await settle()
    requests[1].cancel()
    await settle()
    await workers.answer(0)
    assert workers.batches[1][0] == [[b"c"]]
    await workers.answer(1)
    await requests[2]
    assert batcher.waiting_rows == 0


@in_loop
async def test_request_after_its_deadline_is_answered_whether_it_waits_or_runs():
    workers = Workers()
    batcher = Batcher(workers)
    deadline = time.monotonic() + 0.05
    requests = [submit(batcher, text, deadline=deadline) for text in (b"a", b"b")]
    for request in requests:
        with pytest.raises(RequestError) as caught:
            await request
        assert caught.value.code == Code.DEADLINE_EXCEEDED
    later = submit(batcher, b"c")
    await settle()
    await workers.answer(0)
    assert workers.batches[1][0] == [[b"c"]]
    await workers.answer(1)
    assert (await later)["text"].tolist() == [b"C"]


@in_loop
async def test_failed_computation_is_an_internal_error_and_the_worker_is_free_again():
    workers = Workers()
    batcher = Batcher(workers)
    request = submit(batcher, b"a")
    await settle()
    workers.batches[0][1].set_exception(OSError("broken"))
    with pytest.raises(RequestError) as caught:
        await request
    assert caught.value.code == Code.INTERNAL
    later = submit(batcher, b"b")
    await settle()
    await workers.answer(1)
    await later


@in_loop
async def test_request_that_does_not_fit_the_signature_is_refused():
    batcher = Batcher(Workers())
    for inputs in ({}, {"x": np.zeros(1)}, {"text": np.zeros([1, 1], object)}):
        with pytest.raises(RequestError):
            await batcher.submit("model", LOADED, UPPER, inputs)
