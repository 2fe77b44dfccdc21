"""Models and their versions: found by polling, verified, warmed up, and replaced under load."""

import asyncio
import collections
import contextlib
import dataclasses
import logging
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.export.verification import checked_copy
from keras_transformer.export.versions import numbered_versions
from keras_transformer.serving.batcher import Batcher
from keras_transformer.serving.errors import Code, RequestError
from keras_transformer.serving.model_config import ModelSource
from keras_transformer.serving.servable import Arrays, ServedSignature
from keras_transformer.serving.workers import Loaded, Workers

LOG = logging.getLogger("keras_transformer.serving")

#: States of a version, by TensorFlow Serving's numbers and names.
STATES = {"START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50}

# Ended versions that a model's status still lists.
_MOST_ENDED = 16


@dataclasses.dataclass(eq=False)
class Version:
    """A version of a model.

    Attributes:
        model: name of the model.
        number: the version number.
        directory: its directory.
        state: a key of `STATES`.
        error: why it could not be loaded; None if it could.
        loaded: what the workers have loaded, while it is available.
        manifest: its manifest, while it is available.
        in_flight: number of requests that use it.
        fingerprint: the files that were there when it was loaded.
        idle: event that is set when the last request that uses the version ends.
        files: context of the checked copy of its files.
    """

    model: str
    number: int
    directory: pathlib.Path
    state: str = "START"
    error: RequestError | None = None
    loaded: Loaded | None = None
    manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    in_flight: int = 0
    fingerprint: object = None
    idle: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    files: contextlib.AsyncExitStack = dataclasses.field(default_factory=contextlib.AsyncExitStack)

    @property
    def signatures(self) -> Mapping[str, ServedSignature]:
        """The signatures by name; none while it is not loaded."""
        return {} if self.loaded is None else self.loaded.signatures


class Model:
    """A served model.

    Args:
        source: where its versions are.

    Attributes:
        versions: the versions by number, also those that have ended.
    """

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self.versions: dict[int, Version] = {}

    @property
    def available(self) -> list[Version]:
        """The versions that answer requests, highest first."""
        found = [each for each in self.versions.values() if each.state == "AVAILABLE"]
        return sorted(found, key=lambda version: -version.number)


class ModelManager:
    """Serves the versions of models, and watches their directories for changes.

    A new version is verified (`checked_copy`), loaded and warmed up while the old one answers. Then
    requests go to the new one, and the old one is unloaded after its last answer. A version that
    cannot be loaded replaces nothing; its status contains the error, and loading is retried when
    its files change.

    Args:
        sources: the models.
        workers: the `Workers`.
        batcher: the `Batcher` of these workers.
        key: file with public keys, one of which must have signed each version. Default None, any.
    """

    def __init__(
        self,
        sources: Sequence[ModelSource],
        workers: Workers,
        batcher: Batcher,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        self.models: dict[str, Model] = {source.name: Model(source) for source in sources}
        self.workers = workers
        self.batcher = batcher
        self.key = key
        self._unloading: set[asyncio.Task[None]] = set()
        self._warned: set[str] = set()

    @property
    def is_ready(self) -> bool:
        """True if every model has a version that answers requests."""
        return all(model.available for model in self.models.values())

    def find(self, name: str, version: int | None = None, label: str | None = None) -> Version:
        """Returns the version that a request asks for; a `RequestError` if there is none.

        Args:
            name: name of the model.
            version: number of the version. Default: the highest available one.
            label: label of the version, instead of its number.
        """
        model = self.models.get(name)
        if label is not None:
            labels = {} if model is None else model.source.labels
            if label not in labels:
                message = f"Unrecognized servable version label: {label}"
                raise RequestError(Code.INVALID_ARGUMENT, message)
            version = labels[label]
        asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
        available = [] if model is None else model.available
        for each in available:
            if version is None or each.number == version:
                return each
        raise RequestError(Code.NOT_FOUND, f"Servable not found for request: {asked}")

    def statuses(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> list[Version]:
        """Returns the versions of a model for its status, highest first."""
        model = self.models.get(name)
        if label is not None:
            version = self.find(name, label=label).number
        versions = {} if model is None else model.versions
        if version is not None:
            if version not in versions:
                message = f"Could not find version {version} of model {name}"
                raise RequestError(Code.NOT_FOUND, message)
            return [versions[version]]
        if not versions:
            message = f"Could not find any versions of model {name}"
            raise RequestError(Code.NOT_FOUND, message)
        return [versions[number] for number in sorted(versions, reverse=True)]

    async def predict(
        self,
        version: Version,
        signature: ServedSignature,
        inputs: Arrays,
        deadline: float = math.inf,
    ) -> Arrays:
        """Returns the outputs of a signature of a version, see `Batcher.submit`."""
        if version.loaded is None:
            raise RequestError(Code.UNAVAILABLE, "The version has been unloaded; try again.")
        with self.hold(version):
            arguments = version.loaded, signature, inputs, deadline
            return await self.batcher.submit(version.model, *arguments)

    @contextlib.contextmanager
    def hold(self, version: Version) -> Iterator[None]:
        """Context in which a version is not unloaded."""
        version.in_flight += 1
        try:
            yield
        finally:
            version.in_flight -= 1
            if not version.in_flight:
                version.idle.set()

    async def close(self) -> None:
        """Removes the copies of files of all versions."""
        for model in self.models.values():
            for version in model.versions.values():
                await version.files.aclose()

    async def watch(self, seconds: float) -> None:
        """Watches the directories for changes until it is cancelled.

        Args:
            seconds: time between checks; 0 to check once.
        """
        while True:
            for model in self.models.values():
                try:
                    await self.update(model)
                except Exception:  # the next check may succeed
                    LOG.exception("checking for versions of %s failed", model.source.name)
            if not seconds:
                return
            await asyncio.sleep(seconds)

    async def update(self, model: Model) -> None:
        """Loads new versions of a model, and unloads those that should no longer be served."""
        found = await asyncio.to_thread(self._found_versions, model.source)
        if found is None:  # the directory is missing at the moment: nothing changes
            return
        usable = dict(found)
        while True:
            missing = [
                number
                for number in model.source.wanted(list(usable))
                if number not in {each.number for each in model.available}
            ]
            if not missing:
                break
            # If this version cannot be loaded, the next lower one is served in its place.
            number = missing[0]
            version = model.versions.get(number)
            if version and version.error and version.fingerprint == found[number][1]:
                del usable[number]
                continue
            await self._load(model, number, *found[number])
            if model.versions[number].error:
                del usable[number]
        wanted = model.source.wanted(list(usable))
        for version in model.available:
            if version.number not in wanted:
                self._retire(version)
        ended = [each for each in model.versions.values() if each.state == "END"]
        gone = [each for each in ended if each.number not in found]
        for version in sorted(gone, key=lambda each: each.number)[:-_MOST_ENDED]:
            del model.versions[version.number]

    def _found_versions(self, source: ModelSource) -> dict[int, tuple[pathlib.Path, object]] | None:
        """Returns directory and fingerprint of each version on the disk."""
        try:
            entries = [each for each in numbered_versions(source.directory) if each[1].is_dir()]
        except OSError:
            return None
        paths: dict[int, list[pathlib.Path]] = collections.defaultdict(list)
        for number, path in entries:
            paths[number].append(path)
        found = {}
        for number, same in paths.items():
            same = sorted(same)
            if len(same) > 1 and str(same[0]) not in self._warned:
                self._warned.add(str(same[0]))
                names = " and ".join(path.name for path in same)
                LOG.warning("%s: %s are the same version", source.directory, names)
            found[number] = (same[0], _fingerprint(same[0]))
        return found

    async def _load(
        self, model: Model, number: int, directory: pathlib.Path, fingerprint: object
    ) -> None:
        version = Version(model.source.name, number, directory, fingerprint=fingerprint)
        model.versions[number] = version
        version.state = "LOADING"
        try:
            context = checked_copy(directory, key=self.key)
            checked = await asyncio.to_thread(context.__enter__)
            version.files.push_async_callback(_leave, context)
            version.manifest = checked.verification.manifest
            version.loaded = await self.workers.load(checked.directory)
            if not self.workers.need_files:
                await version.files.aclose()
        except BaseException as error:
            version.state = "END"
            await version.files.aclose()
            if not isinstance(error, Exception):  # cancelled
                raise
            version.error = _load_error(error)
            LOG.error("%s", version.error.message)
            return
        version.state = "AVAILABLE"
        LOG.info("%s version %d is available", version.model, number)

    def _retire(self, version: Version) -> None:
        """Unloads a version after its last answer; new requests no longer find it."""
        version.state = "UNLOADING"
        task = asyncio.get_running_loop().create_task(self._unload(version))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    async def _unload(self, version: Version) -> None:
        # A request that has found the version starts within the same turn of the event loop.
        await asyncio.sleep(0)
        while version.in_flight:
            version.idle.clear()
            await version.idle.wait()
        loaded, version.loaded = version.loaded, None
        if loaded is not None:
            self.batcher.forget(loaded)
            await self.workers.unload(loaded)
        await version.files.aclose()
        version.state = "END"
        LOG.info("%s version %d is unloaded", version.model, version.number)


async def _leave(context: contextlib.AbstractContextManager[object]) -> None:
    """Exits a context, in a thread because this accesses files."""
    await asyncio.to_thread(context.__exit__, None, None, None)


def _load_error(error: Exception) -> RequestError:
    """Returns the error that the status of a version shows."""
    if isinstance(error, UserError):
        return RequestError(Code.FAILED_PRECONDITION, str(error))
    if isinstance(error, RequestError):
        return RequestError(error.code, f"A warm-up request failed: {error.message}")
    LOG.error("loading failed", exc_info=error)
    first_line = str(error).strip().partition("\n")[0][:300]
    return RequestError(Code.INTERNAL, f"{type(error).__name__}: {first_line}")


def _fingerprint(directory: pathlib.Path) -> object:
    """Returns names, sizes and times of the files of a version, which change while it is copied."""
    found = []
    try:
        for folder, _, names in os.walk(directory):
            for name in sorted(names):
                status = os.lstat(os.path.join(folder, name))
                found.append((folder, name, status.st_size, status.st_mtime_ns))
    except OSError:
        return None
    return tuple(found)
