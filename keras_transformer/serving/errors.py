"""Errors of requests: the canonical status codes, and their HTTP statuses in TensorFlow Serving."""

import enum


class Code(enum.IntEnum):
    """Canonical status codes of gRPC and TensorFlow."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


#: HTTP status of each code, as TensorFlow Serving's `http_server.cc` maps them.
HTTP_STATUSES: dict[Code, int] = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}


class RequestError(Exception):
    """An error with which a request is answered.

    Args:
        code: the canonical status code.
        message: the text of the answer.
        http_status: HTTP status; by default that of the code. 413 has no code of its own.
        retry_after: seconds after which the client may try again, for the header Retry-After.

    Example:

    >>> RequestError(Code.NOT_FOUND, "Servable not found for request: Latest(dates)").http_status
    404
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status: int = HTTP_STATUSES[code] if http_status is None else http_status
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross the boundary between processes, and keyword arguments would be lost.
        return _rebuilt, (self.code, self.message, self.http_status, self.retry_after)


def _rebuilt(code: Code, message: str, http_status: int, retry_after: int | None) -> RequestError:
    return RequestError(code, message, http_status=http_status, retry_after=retry_after)


def invalid(message: str) -> RequestError:
    """Returns the error for a request that is wrong whatever the state of the server."""
    return RequestError(Code.INVALID_ARGUMENT, message)
