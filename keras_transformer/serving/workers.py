"""Workers that load exports and answer batches, in threads or in processes."""

import abc
import asyncio
import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import pathlib
import signal
from collections.abc import Sequence
from typing import Any

from keras_transformer.serving.errors import Code, RequestError
from keras_transformer.serving.servable import Arrays, Servable, ServedSignature

#: The kinds of workers.
KINDS = ("threads", "processes")


@dataclasses.dataclass(frozen=True, eq=False)
class Loaded:
    """An export that the workers have loaded.

    Attributes:
        key: what identifies it to the workers.
        signatures: its signatures by name.
        signature_defs: their `SignatureDef`s by name.
    """

    key: int
    signatures: dict[str, ServedSignature]
    signature_defs: dict[str, Any]


class Workers(abc.ABC):
    """Base of the workers. Each worker answers one batch at a time and computes in one thread.

    Args:
        count: number of workers.

    Attributes:
        need_files: whether the files of a version are needed as long as it is loaded.
    """

    need_files = False

    def __init__(self, count: int) -> None:
        self.count = count
        self._keys = itertools.count()

    @abc.abstractmethod
    async def load(self, directory: pathlib.Path) -> Loaded:
        """Loads and warms up a version; errors are those of `Servable`."""

    @abc.abstractmethod
    async def unload(self, loaded: Loaded) -> None:
        """Releases a version that no request uses."""

    @abc.abstractmethod
    def run(
        self, loaded: Loaded, signature: str, requests: Sequence[Arrays]
    ) -> "asyncio.Future[list[Arrays | RequestError]]":
        """Starts `Servable.run` on a free worker; at most `count` calls may be running."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the workers."""


class ThreadWorkers(Workers):
    """Workers in threads of this process, which share its models and its memory.

    TensorFlow computes without Python's global lock.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        pool = concurrent.futures.ThreadPoolExecutor
        self._pool = pool(count, thread_name_prefix="worker")
        # Models are loaded in a separate thread, so that the workers keep answering.
        self._loader = pool(1, thread_name_prefix="loader")
        self._servables: dict[int, Servable] = {}

    async def load(self, directory: pathlib.Path) -> Loaded:
        loop = asyncio.get_running_loop()
        servable = await loop.run_in_executor(self._loader, load_warm, directory, self.count)
        loaded = Loaded(next(self._keys), servable.signatures, servable.signature_defs)
        self._servables[loaded.key] = servable
        return loaded

    async def unload(self, loaded: Loaded) -> None:
        servable = self._servables.pop(loaded.key)
        await asyncio.get_running_loop().run_in_executor(self._loader, servable.close)

    def run(
        self, loaded: Loaded, signature: str, requests: Sequence[Arrays]
    ) -> "asyncio.Future[list[Arrays | RequestError]]":
        servable = self._servables[loaded.key]
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, servable.run, signature, requests)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._loader.shutdown(cancel_futures=True)
        for servable in self._servables.values():
            servable.close()
        self._servables.clear()


def load_warm(directory: pathlib.Path, threads: int) -> Servable:
    """Returns a servable that has answered its warm-up requests."""
    servable = Servable(directory, threads)
    try:
        servable.warm_up()
    except BaseException:
        servable.close()
        raise
    return servable


class ProcessWorkers(Workers):
    """Workers in processes of their own, each with its own copy of the models.

    Neither the parsing of requests nor the loading of a model competes with them for Python's
    global lock. A worker that dies is replaced; its batch is answered with UNAVAILABLE.
    """

    need_files = True  # for the worker that replaces one

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._pools = [_new_process() for _ in range(count)]
        self._free = list(range(count))
        self._directories: dict[int, pathlib.Path] = {}

    async def load(self, directory: pathlib.Path) -> Loaded:
        key = next(self._keys)
        self._directories[key] = directory
        loop = asyncio.get_running_loop()
        signatures, signature_defs = {}, {}
        try:
            # One at a time, so that the other workers keep answering.
            for pool in self._pools:
                signatures, signature_defs = await loop.run_in_executor(
                    pool, _load_in_process, key, directory
                )
        except BaseException:
            await self._forget(key)
            raise
        return Loaded(key, signatures, signature_defs)

    async def unload(self, loaded: Loaded) -> None:
        await self._forget(loaded.key)

    async def _forget(self, key: int) -> None:
        del self._directories[key]
        loop = asyncio.get_running_loop()
        for pool in self._pools:
            await loop.run_in_executor(pool, _unload_in_process, key)

    def run(
        self, loaded: Loaded, signature: str, requests: Sequence[Arrays]
    ) -> "asyncio.Future[list[Arrays | RequestError]]":
        return asyncio.ensure_future(self._run(loaded, signature, requests))

    async def _run(
        self, loaded: Loaded, signature: str, requests: Sequence[Arrays]
    ) -> list[Arrays | RequestError]:
        number = self._free.pop()
        directory = self._directories[loaded.key]
        loop = asyncio.get_running_loop()
        arguments = loaded.key, directory, signature, requests
        try:
            return await loop.run_in_executor(self._pools[number], _run_in_process, *arguments)
        except concurrent.futures.process.BrokenProcessPool:
            self._pools[number] = _new_process()
            error = RequestError(Code.UNAVAILABLE, "A worker process died; try again.")
            return [error] * len(requests)
        finally:
            self._free.append(number)

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)


def _new_process() -> concurrent.futures.ProcessPoolExecutor:
    # A forked copy of a process with TensorFlow's threads can hang.
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, context, _start_process)


_SERVABLES: dict[int, Servable] = {}


def _start_process() -> None:
    # Ctrl-C goes to all processes of the terminal; only the server answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_operations()


def import_operations() -> None:
    """Imports tensorflow-text, which registers the operations of the tokenizers."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    # The loader for sessions is deprecated in Python, but it is the one that servers use.
    tf.get_logger().setLevel("ERROR")


def _load_in_process(key: int, directory: pathlib.Path) -> tuple[Any, Any]:
    servable = _SERVABLES[key] = load_warm(directory, 1)
    return servable.signatures, servable.signature_defs


def _unload_in_process(key: int) -> None:
    servable = _SERVABLES.pop(key, None)
    if servable is not None:
        servable.close()


def _run_in_process(
    key: int, directory: pathlib.Path, signature: str, requests: Sequence[Arrays]
) -> list[Arrays | RequestError]:
    if key not in _SERVABLES:  # this process replaces one that died
        _load_in_process(key, directory)
    return _SERVABLES[key].run(signature, requests)


def make_workers(kind: str, count: int) -> Workers:
    """Returns workers of a kind.

    Args:
        kind: "threads" or "processes".
        count: number of workers.
    """
    return ThreadWorkers(count) if kind == "threads" else ProcessWorkers(count)
