"""Settings of the server."""

import dataclasses

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.serving.workers import KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits on the resources that requests can use.

    Args:
        body_bytes: largest body of a request, also after decompression. Default 4 MiB.
        rows: maximum number of rows of a request. Default 4096.
        text_bytes: longest text of a request. Default 1 MiB; models truncate texts earlier.
        seconds: time until a request is answered with DEADLINE_EXCEEDED. Default 30.
        header_seconds: time for sending the head of a request. Default 10.
        body_seconds: time for sending its body. Default 30.
        write_seconds: time for receiving the answer. Default 30.
        connections: maximum number of concurrent connections. Default 1000.
        stream_seconds: time until a stream ends with DEADLINE_EXCEEDED. Default 300.
        streams: maximum number of concurrent streams. Default 64.
    """

    body_bytes: int = 4 << 20
    rows: int = 4096
    text_bytes: int = 1 << 20
    seconds: float = 30.0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    connections: int = 1000
    stream_seconds: float = 300.0
    streams: int = 64

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            is_time = field.name.endswith("seconds")
            require = require_positive if is_time else require_positive_integer
            require(field.name, getattr(self, field.name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server.

    Args:
        host: address to listen on. Default "127.0.0.1", which other machines cannot reach.
        port: port of REST; 0 for any free one. Default 8501.
        grpc_port: port of gRPC; 0 for any free one, None for no gRPC. Default 8500.
        workers: number of batches that are computed concurrently, each in one thread. Default: the
            number of cores.
        worker_kind: "threads" or "processes". Default "threads".
        max_batch_rows: largest number of rows of a batch. Default 64.
        max_waiting_rows: number of rows that may wait. Default 4096.
        poll_seconds: time between checks for new versions; 0 to check once. Default 1.
        drain_seconds: time for the requests that are being answered when the server stops. Default
            30.
        limits: the `RequestLimits`.
        key: file with public keys, one of which must have signed each version. Default None, any.
        api_key: key that requests must send; None for no key.
        tls_certificate, tls_key: PEM files of the certificate chain and of its private key; None
            for connections without TLS.
        cors_origins: origins whose web pages may read answers; "*" for all. Default: none.
        access_log: file of the access log, "-" for standard output; None for no log.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    workers: int = 1
    worker_kind: str = "threads"
    max_batch_rows: int = 64
    max_waiting_rows: int = 4096
    poll_seconds: float = 1.0
    drain_seconds: float = 30.0
    limits: RequestLimits = RequestLimits()
    key: str | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    tls_certificate: str | None = None
    tls_key: str | None = None
    cors_origins: tuple[str, ...] = ()
    access_log: str | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "max_batch_rows", "max_waiting_rows"):
            require_positive_integer(name, getattr(self, name))
        for name in ("port", "grpc_port"):
            value = getattr(self, name)
            if value is not None and require_integer(name, value, 0) > 65535:
                raise UserError("must be below 65536.", argument=name)
        require_choice("worker_kind", self.worker_kind, KINDS)
        require_not_negative("poll_seconds", self.poll_seconds)
        require_not_negative("drain_seconds", self.drain_seconds)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise UserError("TLS needs a certificate and its key.", argument="tls_key")
        if self.api_key is not None and len(self.api_key) < 16:
            problem = "must have at least 16 characters."
            raise UserError(problem, argument="api_key", fix="openssl rand -hex 32 prints one.")
