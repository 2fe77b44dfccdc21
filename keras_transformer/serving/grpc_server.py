"""The gRPC interface: PredictionService, ModelService and grpc.health.v1, in the event loop."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf import wrappers_pb2
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from keras_transformer._utils.errors import UserError
from keras_transformer.serving.errors import Code, RequestError, invalid
from keras_transformer.serving.manager import ModelManager
from keras_transformer.serving.messages import predict_pb2
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.rest import check_limits, is_key
from keras_transformer.serving.servable import find_signature
from keras_transformer.serving.settings import ServerSettings
from keras_transformer.serving.status import SIGNATURE_DEF, metadata_message, status_message
from keras_transformer.serving.tensor_protos import inputs_from_proto, proto_from_array

LOG = logging.getLogger("keras_transformer.serving")

_HEALTH = "grpc.health.v1.Health"
# Values of the health protocol's `ServingStatus`.
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
# Seconds between checks for a change of health.
_WATCH = 1.0

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """TensorFlow Serving's PredictionService: Predict and GetModelMetadata.

    Args:
        manager: the `ModelManager`.
        metrics: the `Metrics`.
        settings: the `ServerSettings`.
    """

    def __init__(self, manager: ModelManager, metrics: Metrics, settings: ServerSettings) -> None:
        self.manager = manager
        self.metrics = metrics
        self.settings = settings

    async def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers a predict request."""
        return await self._answered("predict", request, context, self._predict)

    async def _predict(self, request: Any, context: Any) -> tuple[Any, int]:
        limits = self.settings.limits
        seconds = limits.seconds
        remaining = context.time_remaining()
        if remaining is not None:
            seconds = min(seconds, remaining)
        deadline = time.monotonic() + seconds
        spec = request.model_spec
        version = self.manager.find(*_choice(spec))
        name = spec.signature_name
        if name and name not in version.signatures:
            message = f'Serving signature key "{name}" not found.'
            raise RequestError(Code.FAILED_PRECONDITION, message)
        signature = find_signature(version.signatures, name)
        wanted = list(request.output_filter) or list(signature.outputs)
        for output in wanted:
            if output not in signature.outputs:
                listed = ",".join(signature.outputs)
                problem = f"output tensor alias not found in signature: {output}"
                raise invalid(f"{problem} Outputs expected to be in the set {{{listed}}}.")
            if wanted.count(output) > 1:
                raise invalid(f"duplicate output tensor alias: {output}")
        inputs = inputs_from_proto(request.inputs, signature)
        rows = signature.rows(inputs)
        check_limits(limits, rows, inputs)
        outputs = await self.manager.predict(version, signature, inputs, deadline)
        response = predict_pb2.PredictResponse()
        response.model_spec.name = version.model
        response.model_spec.version.value = version.number
        response.model_spec.signature_name = signature.name
        for output in wanted:
            proto = proto_from_array(outputs[output], signature.outputs[output].dtype)
            response.outputs[output].CopyFrom(proto)
        return response, rows

    async def GetModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers with the signatures of a version."""
        return await self._answered("metadata", request, context, self._metadata)

    async def _metadata(self, request: Any, context: Any) -> tuple[Any, int]:
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != SIGNATURE_DEF:
                raise invalid(f"Metadata field {field} is not supported")
        return metadata_message(self.manager.find(*_choice(request.model_spec))), 0

    async def Classify(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers UNIMPLEMENTED: no export has a signature of tf.Examples."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Use Predict.")

    Regress = MultiInference = Classify

    async def _answered(
        self,
        api: str,
        request: Any,
        context: Any,
        answer: Callable[[Any, Any], Awaitable[tuple[Any, int]]],
    ) -> Any:
        """Returns an answer, or ends the call with the status of its error."""
        started = time.monotonic()
        code, message, rows, response = Code.OK, "", 0, None
        try:
            response, rows = await answer(request, context)
        except RequestError as error:
            code, message = error.code, error.message
            if error.retry_after is not None:
                context.set_trailing_metadata((("retry-after", str(error.retry_after)),))
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except Exception:
            LOG.exception("a call failed")
            self.metrics.internal_errors += 1
            code, message = Code.INTERNAL, "Internal error."
        finally:
            name = request.model_spec.name
            model = name if name in self.manager.models else ""
            seconds = time.monotonic() - started
            self.metrics.record_request(model, code.name, api, "GRPC", seconds, rows)
        if response is None:
            await context.abort(_CODES[code], message)
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """TensorFlow Serving's ModelService: GetModelStatus.

    Args:
        manager: the `ModelManager`.
    """

    def __init__(self, manager: ModelManager) -> None:
        self.manager = manager

    async def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers with the states of the versions of a model."""
        try:
            if not request.HasField("model_spec"):
                raise invalid("Missing ModelSpec")
            return status_message(self.manager.statuses(*_choice(request.model_spec)))
        except RequestError as error:
            await context.abort(_CODES[error.code], error.message)

    async def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers UNIMPLEMENTED: the models are given when the server starts."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Restart the server to change models.")


class HealthService:
    """The health protocol grpc.health.v1, without the package of its messages.

    A request has the bytes of a `StringValue`, and an answer those of a `UInt32Value`.

    Args:
        is_healthy: returns whether a service is healthy, "" for all; None if it is unknown.
    """

    def __init__(self, is_healthy: Callable[[str], bool | None]) -> None:
        self._is_healthy = is_healthy

    def handler(self) -> grpc.GenericRpcHandler:
        """Returns the handler of the service's methods."""
        read = wrappers_pb2.StringValue.FromString
        write = wrappers_pb2.UInt32Value.SerializeToString
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, read, write),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, read, write),
        }
        return grpc.method_handlers_generic_handler(_HEALTH, methods)

    async def _check(self, request: Any, context: Any) -> Any:
        healthy = self._is_healthy(request.value)
        if healthy is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return wrappers_pb2.UInt32Value(value=_SERVING if healthy else _NOT_SERVING)

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        last = None
        while True:
            healthy = self._is_healthy(request.value)
            status = {None: _SERVICE_UNKNOWN, True: _SERVING, False: _NOT_SERVING}[healthy]
            if status != last:
                yield wrappers_pb2.UInt32Value(value=status)
            last = status
            await asyncio.sleep(_WATCH)


class _KeyInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the API key, except those of the health protocol."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

        async def refuse(request: Any, context: Any) -> None:
            message = "The API key is missing or wrong."
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """Returns the handler of a call."""
        metadata = dict(handler_call_details.invocation_metadata or ())
        sent = metadata.get("x-api-key")
        if sent is None:
            scheme, _, token = str(metadata.get("authorization", "")).partition(" ")
            sent = token.strip() if scheme.lower() == "bearer" else ""
        is_health = str(handler_call_details.method).startswith(f"/{_HEALTH}/")
        if is_health or is_key(str(sent), self._key):
            return await continuation(handler_call_details)
        return self._refusal


def make_grpc_server(
    manager: ModelManager,
    metrics: Metrics,
    settings: ServerSettings,
    is_healthy: Callable[[str], bool | None],
) -> tuple[grpc.aio.Server, int]:
    """Returns a server, not yet started, and its port; a port in use is a `UserError`.

    Args:
        manager: the `ModelManager`.
        metrics: the `Metrics`.
        settings: the `ServerSettings`.
        is_healthy: see `HealthService`.
    """
    # Without `so_reuseport` set to 0, two servers could share the port unnoticed.
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.limits.body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", settings.limits.connections),
    ]
    interceptors = [] if settings.api_key is None else [_KeyInterceptor(settings.api_key)]
    server = grpc.aio.server(interceptors=interceptors, options=options)
    service = PredictionService(manager, metrics, settings)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(manager), server)
    server.add_generic_rpc_handlers((HealthService(is_healthy).handler(),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    try:
        if settings.tls_certificate is None or settings.tls_key is None:
            port = server.add_insecure_port(address)
        else:
            with open(settings.tls_key, "rb") as key, open(settings.tls_certificate, "rb") as chain:
                pairs = [(key.read(), chain.read())]
            port = server.add_secure_port(address, grpc.ssl_server_credentials(pairs))
    except RuntimeError:
        port = 0
    if not port:
        fix = "Choose another --grpc-port, or stop the other server."
        raise UserError("gRPC cannot listen.", where=address, fix=fix)
    return server, port


def _choice(spec: Any) -> tuple[str, int | None, str | None]:
    """Returns name, version and label of a `ModelSpec`."""
    if not spec.name:
        raise invalid("ModelSpec has no name specified.")
    kind = spec.WhichOneof("version_choice")
    version = spec.version.value if kind == "version" else None
    return spec.name, version, spec.version_label if kind == "version_label" else None
