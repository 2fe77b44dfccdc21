"""The REST interface: TensorFlow Serving's paths, and health, metrics and a list of models."""

import asyncio
import hmac
import http
import json
import logging
import re
import time
import urllib.parse
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from keras_transformer.serving.errors import Code, RequestError, invalid
from keras_transformer.serving.json_codec import (
    PredictRequest,
    format_error,
    format_predictions,
    parse_object,
    parse_predict,
)
from keras_transformer.serving.manager import ModelManager
from keras_transformer.serving.metrics import CONTENT_TYPE, Metrics
from keras_transformer.serving.servable import Arrays, find_signature
from keras_transformer.serving.settings import RequestLimits
from keras_transformer.serving.status import metadata_json, status_json
from keras_transformer.serving.web_page import page_responses

LOG = logging.getLogger("keras_transformer.serving")

#: An answer to a request for a path.
Handler = Callable[["Exchange"], Awaitable[Response]]

_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
_POST = re.compile(_MODEL + r":(classify|regress|predict|stream)", re.IGNORECASE)
_GET = re.compile(
    r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(/metadata)?", re.I
)
_OPEN_PATHS = ("/healthz", "/readyz")
# Seconds after which a request that still waits is watched for the end of its connection.
_WATCH_AFTER = 0.5
_CLIENT_GONE = 499


class ModelSpec(NamedTuple):
    """Model, version and method that a path names.

    Attributes:
        name: name of the model, "" if the path has none.
        version: number of the version; None for the highest one.
        label: label of the version; None if it has none.
        method: "predict", "classify", "regress" or "stream"; "metadata" or "status" for GET.
    """

    name: str
    version: int | None
    label: str | None
    method: str


def parse_path(http_method: str, path: str) -> ModelSpec | None:
    """Returns what a path below /v1 names; None if it is malformed.

    >>> parse_path("POST", "/v1/models/dates/versions/3:predict")
    ModelSpec(name='dates', version=3, label=None, method='predict')
    """
    pattern = {"POST": _POST, "GET": _GET, "HEAD": _GET}.get(http_method)
    match = None if pattern is None else pattern.fullmatch(path)
    if match is None:
        return None
    name, version, label, method = match.groups()
    if version is not None and int(version) >= 2**63:
        raise invalid(f"Failed to convert version: {version} to numeric.")
    if pattern is _GET:
        method = "metadata" if method else "status"
    return ModelSpec(
        urllib.parse.unquote(name or ""),
        None if version is None else int(version),
        None if label is None else urllib.parse.unquote(label),
        method.lower(),
    )


class Exchange:
    """A request and what the access log says about it.

    Args:
        request: the request.

    Attributes:
        notes: further fields of the access log.
        started: time of `time.monotonic` at which it arrived.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.notes: dict[str, Any] = {}
        self.started: float = time.monotonic()


class RestApp:
    """The ASGI application.

    Args:
        manager: the `ModelManager`.
        metrics: the `Metrics`.
        limits: the `RequestLimits`.
        api_key: key that requests must send; None for no key.
        access_log: stream of the access log; None for no log.

    Attributes:
        routes: handlers by path, for GET. Add to it to answer further paths.
        methods: handlers by the method of `/v1/models/NAME:METHOD`, such as "predict".
        is_draining: whether the server is stopping, so that /readyz says so.
    """

    def __init__(
        self,
        manager: ModelManager,
        metrics: Metrics | None = None,
        limits: RequestLimits | None = None,
        api_key: str | None = None,
        access_log: TextIO | None = None,
    ) -> None:
        self.manager = manager
        self.metrics: Metrics = metrics or manager.batcher.metrics
        self.limits: RequestLimits = limits or RequestLimits()
        self.access_log = access_log
        self.is_draining = False
        self._api_key = None if api_key is None else api_key.encode()
        self.routes: dict[str, Handler] = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
            "/monitoring/prometheus/metrics": self._metrics,
            "/models": self._models,
        }
        self._page = page_responses()
        self.routes.update(dict.fromkeys(self._page, self._page_file))
        self.methods: dict[str, Callable[[Exchange, ModelSpec], Awaitable[Response]]] = {
            "predict": self._predict,
            "classify": self._unimplemented,
            "regress": self._unimplemented,
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request of the ASGI protocol."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        exchange = Exchange(Request(scope, receive))
        try:
            response = await self._answer(exchange)
        except RequestError as error:
            response = _error_response(error)
        except ClientDisconnect:
            self._log(exchange, _CLIENT_GONE, 0)
            return
        except Exception:
            LOG.exception("a request failed")
            self.metrics.internal_errors += 1
            response = _error_response(RequestError(Code.INTERNAL, "Internal error."))
        response.headers["X-Content-Type-Options"] = "nosniff"
        try:
            seconds = self.limits.write_seconds
            if type(response) is not Response:
                seconds += self.limits.stream_seconds
            async with asyncio.timeout(seconds):
                await response(scope, receive, send)
        except TimeoutError:
            LOG.info("a client did not read its answer in time")
        self._log(exchange, response.status_code, len(getattr(response, "body", b"")))

    async def _answer(self, exchange: Exchange) -> Response:
        request = exchange.request
        # The path as it was sent: a model's name may contain an encoded "/".
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        path = path.partition("?")[0]
        # The page has no secrets; it asks for the API key and sends it with its requests.
        if path not in _OPEN_PATHS and path not in self._page:
            self._authenticate(request)
        if path[:4].lower() == "/v1/":
            spec = parse_path(request.method, path)
            if spec is None:
                raise invalid(f"Malformed request: {request.method} {path[:200]}")
            return await self._answer_model(exchange, spec)
        handler = self.routes.get(path)
        if handler is None:
            raise RequestError(Code.NOT_FOUND, f"There is nothing at {path[:200]}.")
        if request.method not in ("GET", "HEAD"):
            status = http.HTTPStatus.METHOD_NOT_ALLOWED
            message = f"{path} supports only GET."
            raise RequestError(Code.UNIMPLEMENTED, message, http_status=status)
        return await handler(exchange)

    def _authenticate(self, request: Request) -> None:
        if self._api_key is None:
            return
        sent = request.headers.get("x-api-key")
        if sent is None:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            sent = token.strip() if scheme.lower() == "bearer" else ""
        if not is_key(sent, self._api_key):
            raise RequestError(Code.UNAUTHENTICATED, "The API key is missing or wrong.")

    async def _answer_model(self, exchange: Exchange, spec: ModelSpec) -> Response:
        exchange.notes["model"] = spec.name
        if exchange.request.method == "POST":
            handler = self.methods.get(spec.method)
            if handler is None:
                path = exchange.request.url.path
                raise invalid(f"Malformed request: POST {path[:200]}")
            try:
                response = await handler(exchange, spec)
            except RequestError as error:
                self._count(exchange, spec, error.code.name)
                raise
            self._count(exchange, spec, "OK")
            return response
        if not spec.name:
            raise invalid("Missing model name in request.")
        version, label = spec.version, spec.label
        if spec.method == "metadata":
            return _json(metadata_json(self.manager.find(spec.name, version, label)))
        return _json(status_json(self.manager.statuses(spec.name, version, label)))

    def _count(self, exchange: Exchange, spec: ModelSpec, status: str) -> None:
        # The names of models that are not served come from requests: their number is unlimited.
        model = spec.name if spec.name in self.manager.models else ""
        seconds = time.monotonic() - exchange.started
        rows = exchange.notes.get("rows", 0)
        self.metrics.record_request(model, status, spec.method, "REST", seconds, rows)

    async def _predict(self, exchange: Exchange, spec: ModelSpec) -> Response:
        deadline = exchange.started + self.limits.seconds
        body = await self.read_body(exchange.request)
        # A version that was found is used in the same turn of the event loop, see `ModelManager`.
        version = None

        def find(name: str) -> Any:
            nonlocal version
            version = self.manager.find(spec.name, spec.version, spec.label)
            exchange.notes["version"] = version.number
            return find_signature(version.signatures, name)

        parsed: PredictRequest = parse_predict(body, find)
        assert version is not None
        signature = parsed.signature
        rows = signature.rows(parsed.inputs)
        exchange.notes.update(signature=signature.name, rows=rows)
        check_limits(self.limits, rows, parsed.inputs)
        async with cancelled_without_client(exchange.request):
            outputs = await self.manager.predict(version, signature, parsed.inputs, deadline)
        return _json(format_predictions(signature, outputs, parsed.by_row))

    async def _unimplemented(self, exchange: Exchange, spec: ModelSpec) -> Response:
        parse_object(await self.read_body(exchange.request))
        self.manager.find(spec.name, spec.version, spec.label)
        message = f"The models here have no signature for {spec.method}. Use :predict."
        raise RequestError(Code.UNIMPLEMENTED, message)

    async def read_body(self, request: Request) -> bytes:
        """Returns the body of a request, decompressed, if it is neither too large nor late."""
        limit = self.limits.body_bytes
        too_large = RequestError(
            Code.RESOURCE_EXHAUSTED,
            f"The body is larger than {limit} bytes.",
            http_status=http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        )
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            status = http.HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            message = f"The content encoding {encoding[:40]} is not supported; use gzip or none."
            raise RequestError(Code.INVALID_ARGUMENT, message, http_status=status)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        raise too_large
                    chunks.append(chunk)
        except TimeoutError:
            status = http.HTTPStatus.REQUEST_TIMEOUT
            message = "The body did not arrive in time."
            raise RequestError(Code.DEADLINE_EXCEEDED, message, http_status=status) from None
        body = b"".join(chunks)
        if encoding == "gzip":
            decompressor = zlib.decompressobj(wbits=31)
            try:
                body = decompressor.decompress(body, limit + 1)
            except zlib.error as error:
                raise invalid(f"The body is not gzip: {error}.") from error
            if len(body) > limit:
                raise too_large
            if not decompressor.eof:
                raise invalid("The gzip data of the body ends early.")
        return body

    async def _health(self, exchange: Exchange) -> Response:
        return Response(b"ok\n", media_type="text/plain")

    async def _readiness(self, exchange: Exchange) -> Response:
        if self.is_draining:
            return Response(b"stopping\n", 503, media_type="text/plain")
        if not self.manager.is_ready:
            waiting = [name for name, each in self.manager.models.items() if not each.available]
            return Response(f"no version of {', '.join(waiting)}\n", 503, media_type="text/plain")
        return Response(b"ready\n", media_type="text/plain")

    async def _metrics(self, exchange: Exchange) -> Response:
        return Response(self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _page_file(self, exchange: Exchange) -> Response:
        return self._page[exchange.request.url.path]

    async def _models(self, exchange: Exchange) -> Response:
        """Lists the models, for the web page and other clients of this server."""
        models = []
        for name, model in sorted(self.manager.models.items()):
            available = model.available
            newest = available[0] if available else None
            manifest: Mapping[str, Any] = newest.manifest if newest else {}
            models.append(
                {
                    "name": name,
                    "versions": [version.number for version in available],
                    "labels": dict(model.source.labels),
                    "kind": manifest.get("kind"),
                    "signatures": sorted(newest.signatures) if newest else [],
                }
            )
        content = {"models": models, "methods": sorted(self.methods)}
        return _json(json.dumps(content).encode())

    def _log(self, exchange: Exchange, status: int, size: int) -> None:
        self.metrics.http_answers.add(str(status))
        if self.access_log is None:
            return
        request = exchange.request
        client = request.client
        content = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": None if client is None else client.host,
            "method": request.method,
            "path": request.url.path,
            "status": status,
            "milliseconds": round(1000 * (time.monotonic() - exchange.started), 3),
            "bytes": size,
            **exchange.notes,
        }
        try:
            self.access_log.write(json.dumps(content) + "\n")
            self.access_log.flush()
        except (OSError, ValueError):
            self.access_log = None
            LOG.error("The access log cannot be written; logging stops.")


def is_key(sent: str, key: bytes) -> bool:
    """Returns whether a key is correct, compared in constant time."""
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), key)


def check_limits(limits: RequestLimits, rows: int, inputs: Arrays) -> None:
    """Raises a `RequestError` if a request has too many rows or too long a text."""
    if rows > limits.rows:
        raise invalid(f"{rows} rows are too many for a request; at most {limits.rows} are allowed.")
    for name, array in inputs.items():
        if array.dtype == object:
            longest = max(map(len, array.flat), default=0)
            if longest > limits.text_bytes:
                problem = f"{name!r} has a text of {longest} bytes"
                raise invalid(f"{problem}; at most {limits.text_bytes} are allowed.")


class cancelled_without_client:  # noqa: N801 (used like a function)
    """Context that ends with `ClientDisconnect` when the client closes the connection.

    The connection of a request is watched only after a while, as most are answered at once.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._watcher: asyncio.Task[None] | None = None
        self._is_gone = False

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._task: Any = asyncio.current_task()
        self._timer = loop.call_later(_WATCH_AFTER, self._watch)

    def _watch(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        self._task.cancel()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._is_gone and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise ClientDisconnect


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _error_response(error: RequestError) -> Response:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.code == Code.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.http_status in (408, 413, 415):  # the rest of the body is not read
        headers["Connection"] = "close"
    content = format_error(error.message)
    return Response(content, error.http_status, headers, media_type="application/json")


def allowed_origins(app: Any, origins: Sequence[str]) -> Any:
    """Returns an application that lets web pages of other origins read its answers."""
    from starlette.middleware.cors import CORSMiddleware

    headers = ["Content-Type", "Authorization", "X-API-Key"]
    return CORSMiddleware(app, origins, allow_methods=["GET", "POST"], allow_headers=headers)
