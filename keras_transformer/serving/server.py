"""The server: REST and gRPC in one event loop, from start to drain."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, TextIO

import uvicorn

from keras_transformer._utils.errors import UserError
from keras_transformer.serving.batcher import Batcher
from keras_transformer.serving.grpc_server import make_grpc_server
from keras_transformer.serving.http_protocol import limited_protocol
from keras_transformer.serving.manager import ModelManager
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.model_config import ModelSource
from keras_transformer.serving.rest import RestApp, allowed_origins
from keras_transformer.serving.settings import ServerSettings
from keras_transformer.serving.streaming import Streams
from keras_transformer.serving.workers import import_operations, make_workers

LOG = logging.getLogger("keras_transformer.serving")

_SERVICES = ("tensorflow.serving.PredictionService", "tensorflow.serving.ModelService")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server:
    """A server of exported models: REST and gRPC with TensorFlow Serving's contracts.

    Args:
        sources: the models, from `find_models` or `read_model_config`.
        settings: the `ServerSettings`. Default: REST on 127.0.0.1:8501, gRPC on port 8500.

    Attributes:
        port, grpc_port: the ports in use, after `start`.

    Example:

    ```python
    server = Server(find_models("saved_models"), ServerSettings(workers=2))
    run_server(server)  # until SIGTERM
    ```
    """

    def __init__(
        self, sources: Sequence[ModelSource], settings: ServerSettings | None = None
    ) -> None:
        self.settings: ServerSettings = settings or ServerSettings()
        self._sources = sources
        self.port: int = self.settings.port
        self.grpc_port: int | None = self.settings.grpc_port
        self.metrics: Metrics = Metrics()
        self.stopping: asyncio.Event = asyncio.Event()
        self.manager: ModelManager
        self.app: RestApp

    async def serve(self) -> None:
        """Serves until SIGTERM, Ctrl-C or `stop`; then finishes open requests, and returns."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with contextlib.suppress(ValueError, NotImplementedError):  # not in the main thread
                loop.add_signal_handler(number, self.stop)
        async with self.running():
            await self.stopping.wait()
            LOG.info("stopping after the open requests have been answered")

    def stop(self) -> None:
        """Makes `serve` drain and return."""
        self.stopping.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Context in which the server answers requests; on exit, open requests are finished."""
        settings = self.settings
        listener = _listen(settings.host, settings.port)
        self.port = listener.getsockname()[1]
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(listener.close)
            access_log = stack.enter_context(_opened(settings.access_log))
            import_operations()
            workers = make_workers(settings.worker_kind, settings.workers)
            stack.callback(workers.close)
            rows = settings.max_batch_rows, settings.max_waiting_rows
            batcher = Batcher(workers, *rows, self.metrics)
            self.manager = ModelManager(self._sources, workers, batcher, settings.key)
            stack.push_async_callback(self.manager.close)
            self._add_gauges(batcher)
            self.app = RestApp(
                self.manager, self.metrics, settings.limits, settings.api_key, access_log
            )
            grpc_server = None
            if settings.grpc_port is not None:
                arguments = self.manager, self.metrics, settings, self._is_healthy
                grpc_server, self.grpc_port = make_grpc_server(*arguments)
            self.app.methods["stream"] = Streams(self.app).handle
            await self.manager.watch(0)
            watching = asyncio.create_task(self._watch())
            stack.push_async_callback(_cancelled, watching)
            http_server = self._http_server()
            serving = asyncio.create_task(http_server.serve([listener]))
            while not http_server.started and not serving.done():
                await asyncio.sleep(0.005)
            if grpc_server is not None:
                await grpc_server.start()
            self._announce()
            try:
                yield self
            finally:
                self.app.is_draining = True
                http_server.should_exit = True
                stopping = [] if grpc_server is None else [grpc_server.stop(settings.drain_seconds)]
                await asyncio.gather(serving, *stopping)

    def _is_healthy(self, service: str) -> bool | None:
        if service not in ("", *_SERVICES):
            return None
        return self.manager.is_ready and not self.app.is_draining

    async def _watch(self) -> None:
        if self.settings.poll_seconds:
            await asyncio.sleep(self.settings.poll_seconds)
            await self.manager.watch(self.settings.poll_seconds)

    def _http_server(self) -> uvicorn.Server:
        settings = self.settings
        app: Any = self.app
        if settings.cors_origins:
            app = allowed_origins(app, settings.cors_origins)
        config = uvicorn.Config(
            app,
            http=limited_protocol(settings.limits.header_seconds),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.limits.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
            backlog=2048,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        server = uvicorn.Server(config)
        # uvicorn would raise the signal again after its own shutdown, before gRPC has drained.
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        return server

    def _add_gauges(self, batcher: Batcher) -> None:
        models = self.manager.models
        add, prefix = self.metrics.add_gauge, "keras_transformer_serving_"
        add(
            f"{prefix}waiting_rows",
            "The number of rows that wait for a worker.",
            lambda: [((), batcher.waiting_rows)],
        )
        add(
            f"{prefix}model_version_state",
            "The versions of the models, by state; the value is 1.",
            lambda: [
                ((name, str(version.number), version.state), 1)
                for name, model in models.items()
                for version in model.versions.values()
            ],
            *("model_name", "version", "state"),
        )

    def _announce(self) -> None:
        scheme = "http" if self.settings.tls_certificate is None else "https"
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        LOG.info("REST: %s://%s:%d/v1/models/NAME:predict", scheme, host, self.port)
        LOG.info("web page: %s://%s:%d/", scheme, host, self.port)
        if self.grpc_port is not None:
            LOG.info("gRPC: %s:%d", host, self.grpc_port)
        if not any(model.available for model in self.manager.models.values()):
            LOG.warning("No model is available yet; the server waits for new versions.")
        is_local = self.settings.host in ("127.0.0.1", "::1", "localhost")
        if not is_local and self.settings.api_key is None:
            LOG.warning("Anybody who can reach %s can use the models: no API key is set.", host)


def run_server(server: Server) -> None:
    """Serves until a signal, in uvloop's event loop, which is faster than Python's."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve())


def _listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; a port that is in use is a `UserError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        fix = "Choose another --port or --host, or stop the other server."
        raise UserError(
            f"cannot listen: {error.strerror}.", where=f"{host}:{port}", fix=fix
        ) from error
    return listener


@contextlib.contextmanager
def _opened(path: str | None) -> Any:
    """Yields the stream of the access log, None for no log."""
    stream: TextIO | None = None
    if path == "-":
        stream = sys.stdout
    elif path is not None:
        try:
            stream = open(path, "a", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise UserError(f"cannot be written ({reason}).", where=path) from error
    try:
        yield stream
    finally:
        if stream is not None and stream is not sys.stdout:
            stream.close()


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
