"""A client of the server, with the methods of `keras_transformer.load` and no TensorFlow.

It uses the HTTP client of Python's standard library: a request is one POST of JSON.
"""

import base64
import collections
import contextlib
import http.client
import json
import random
import re
import ssl
import time
import urllib.parse
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

import numpy as np

from keras_transformer._utils.checks import (
    require_integer,
    require_positive,
    require_temperature,
)
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.inference.text_methods import TextMethods
from keras_transformer.inference.translation import Inputs, require_sampling_seed

_MODEL = re.compile(r"(.*)(/v1/models/[^/:]+(?:/versions/\d+|/labels/[^/:]+)?)/?")
# Statuses of a busy server, which has not computed the request.
_BUSY = (429, 503)
# Bytes of texts of a request. Longer inputs become several requests; servers limit the body.
_MOST_BYTES = 1 << 20
_MOST_ROWS = 1024
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 60.0
_DTYPES = {"DT_FLOAT": "float32", "DT_INT32": "int32"}


class ServerError(RuntimeError):
    """An error that the server returned.

    Args:
        message: the server's text.
        status: HTTP status.
        retry_after: seconds after which the server may have time, or None.

    >>> error = ServerError("Servable not found for request: Latest(dates)", 404)
    >>> str(error)
    'Servable not found for request: Latest(dates) (status 404)'
    """

    def __init__(self, message: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(message, status, retry_after)
        self.message = message
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} (status {self.status})"


class Client(TextMethods):
    """A model of a server, with the same methods as `keras_transformer.load(path)`.

    It works with `keras-transformer serve` and with TensorFlow Serving, which does not report the
    kind of its models: a language model is then treated as a model with a source. Several threads
    may use a client. Proxy settings of the environment are ignored.

    Args:
        url: address of the model, `http://HOST:PORT/v1/models/NAME`, or https; a version
            (`/versions/3`) or a label (`/labels/stable`) may follow.
        api_key: the API key of the server. Default None.
        timeout: seconds without a byte from the server after which a request fails with
            `TimeoutError`. Default 60.
        retries: number of further attempts after status 429 or 503 from a busy server, each after
            the time in its header Retry-After, but at most a minute. Default 4.
        tls: settings of TLS, for example with the server's own certificate authority. Default:
            those of `ssl.create_default_context()`.

    Raises:
        ServerError: if the server answers with an error, also from the methods.
        OSError: if the server cannot be reached.

    Example:

    ```python
    client = keras_transformer.serving.Client("http://localhost:8501/v1/models/dates")
    client.translate(["7 mars 2025"])  # ['2025-03-07']
    client.n_best("7 mars 2025", 3).scores
    ```
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        match = _MODEL.fullmatch(parts.path)
        if parts.scheme not in ("http", "https") or not parts.hostname or match is None:
            raise ArgumentError("url", "of the form http://HOST:PORT/v1/models/NAME", url)
        self.name = url
        self.timeout: float = require_positive("timeout", timeout)
        self.retries: int = require_integer("retries", retries, minimum=0)
        self._address = parts.hostname, parts.port
        self._prefix, self._path = match.groups()
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = tls or ssl.create_default_context()
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        metadata = self._ask("GET", f"{self._path}/metadata")
        self._signatures: dict[str, Any] = metadata["metadata"]["signature_def"]["signature_def"]
        default = self._signatures.get("serving_default", {})
        self.kind: str = self._find_kind() or "model"
        self.is_language_model: bool = self.kind == "LanguageModel"
        self.writes_text: bool = "text" in default.get("outputs", {})

    @property
    def signature_names(self) -> Collection[str]:
        return self._signatures

    def compute(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by name, texts as bytes.

        Args:
            signature: name of the signature.
            inputs: its inputs by name: UTF-8 texts, or a number.
        """
        outputs = self._signatures[signature]["outputs"]
        answers = [self._predict(signature, part) for part in _parts(inputs)]
        found = {}
        for name, spec in outputs.items():
            arrays = [_array(answer[name], spec) for answer in answers]
            found[name] = _joined(arrays, spec)
        return found

    def stream(self, text: str, *, temperature: float = 0.0, seed: int = 0) -> Iterator[str]:
        """Returns an iterator over the text so far, with one item after each token.

        Each item is the whole text so far, because a later token can change an earlier character.
        The prompt of a language model is not included. Closing the iterator stops the generation.
        Needs `keras-transformer serve`, and a model with the signature `next_tokens`.

        Args:
            text: the source text, or the prompt of a language model.
            temperature: samples at this temperature. Default 0, the most likely token each time.
            seed: seed of the samples. Default 0.

        Example:

        ```python
        for written in client.stream("Once upon a time"):
            print(written)
        ```
        """
        content = {
            "text": text,
            "temperature": require_temperature("temperature", temperature),
            "seed": require_sampling_seed("seed", seed),
        }
        return _written(*self._send("POST", f"{self._path}:stream", content))

    def close(self) -> None:
        """Closes the connections. Further calls open new ones."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _predict(self, signature: str, inputs: Inputs) -> Mapping[str, Any]:
        columns = {
            name: value if isinstance(value, int | float) else [each.decode() for each in value]
            for name, value in inputs.items()
        }
        body = {"signature_name": signature, "inputs": columns}
        answer = self._ask("POST", f"{self._path}:predict", body)["outputs"]
        names = list(self._signatures[signature]["outputs"])
        return {names[0]: answer} if len(names) == 1 else answer

    def _find_kind(self) -> str | None:
        """Returns the kind of the model, if the server reports it."""
        name = urllib.parse.unquote(self._path.split("/")[3])
        try:
            models = self._ask("GET", f"{self._prefix}/models")["models"]
        except (ServerError, KeyError, TypeError):
            return None
        return next((each["kind"] for each in models if each["name"] == name), None)

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        """Returns the JSON of an answer."""
        connection, response = self._send(method, path, content)
        return _parsed(self._read(connection, response))

    def _send(
        self, method: str, path: str, content: Any = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Returns a successful answer, with retries if the server is busy."""
        body = None if content is None else json.dumps(content, ensure_ascii=False).encode()
        wait = _FIRST_WAIT
        attempt = 0
        while True:
            connection, response = self._exchange(method, path, body)
            if response.status < 300:
                return connection, response
            error = _error(response, self._read(connection, response))
            asked = error.retry_after or 0.0
            if error.status not in _BUSY or attempt == self.retries or asked > _LONGEST_WAIT:
                raise error
            attempt += 1
            # Clients that were refused at the same time must not retry at the same time.
            time.sleep(max(asked, wait) * random.uniform(1.0, 1.25))
            wait *= 2

    def _exchange(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Returns the connection and the head of an answer."""
        headers = {**self._headers, "Accept": "application/json, text/event-stream"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        while True:
            connection, is_new = self._connection()
            try:
                connection.request(method, path, body, headers)
                return connection, connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                connection.close()
                if is_new:
                    raise
                # Otherwise, the server has closed an idle connection.
            except BaseException:
                connection.close()
                raise

    def _read(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> bytes:
        """Returns the body of an answer, and keeps the connection for the next request."""
        try:
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return answer

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """Returns a connection, and whether it is new."""
        try:
            return self._idle.pop(), False
        except IndexError:
            pass
        host, port = self._address
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self.timeout), True
        new = http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self._tls)
        return new, True


def _written(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse
) -> Iterator[str]:
    """Yields the text after each event of a stream."""
    written = ""
    event = "message"
    with contextlib.closing(connection):
        for line in response:
            name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(":")
            if name == "event":
                event = value.strip()
            elif name == "data":
                data = _parsed(value.encode())
                if event == "error":
                    raise ServerError(str(data.get("error")), response.status)
                before = written
                written = data["text"] if "text" in data else written + data["delta"]
                if event == "done":
                    if written != before:
                        yield written
                    return
                yield written
                event = "message"
    raise ServerError("The stream ended early.", response.status)


def _parsed(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError as error:
        beginning = answer[:200].decode("utf-8", "replace")
        raise ServerError(f"The answer is not JSON: {beginning}", 200) from error


def _error(response: http.client.HTTPResponse, answer: bytes) -> ServerError:
    try:
        message = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):  # of a proxy
        message = answer[:1000].decode("utf-8", "replace").strip() or response.reason
    after = response.headers.get("Retry-After", "")
    return ServerError(str(message), response.status, float(after) if after.isdecimal() else None)


def _parts(inputs: Inputs) -> Iterator[Inputs]:
    """Yields parts of the rows of a request that are no longer than servers accept.

    Inputs with a scalar, such as those of `sample`, are not split: answers depend on the row.
    """
    lists = {name: value for name, value in inputs.items() if isinstance(value, list)}
    if len(lists) < len(inputs):
        yield inputs
        return
    begin = size = 0
    rows = list(zip(*lists.values(), strict=True))
    for number, row in enumerate(rows):
        length = sum(map(len, row))
        if number > begin and (size + length > _MOST_BYTES or number - begin >= _MOST_ROWS):
            yield {name: value[begin:number] for name, value in lists.items()}
            begin, size = number, 0
        size += length
    yield {name: value[begin:] for name, value in lists.items()}


def _array(value: Any, spec: Mapping[str, Any]) -> np.ndarray:
    """Returns nested lists of JSON as an array: texts as bytes, other values in their dtype."""
    if spec["dtype"] != "DT_STRING":
        return np.array(value, _DTYPES.get(spec["dtype"]))
    texts = np.array(value, object)
    flat = np.empty(texts.size, object)
    flat[:] = [
        base64.b64decode(text["b64"]) if isinstance(text, dict) else text.encode("utf-8", "replace")
        for text in texts.flat
    ]
    return flat.reshape(texts.shape)


def _joined(arrays: list[np.ndarray], spec: Mapping[str, Any]) -> np.ndarray:
    """Returns the joined rows of several answers, each with the specified number of axes.

    Answers of `attention` have axes of other sizes, which are padded with "" or 0 as in one answer.
    """
    sizes = [int(axis["size"]) for axis in spec["tensor_shape"]["dim"]]
    shape = [max(size, 0) for size in sizes[1:]]
    for array in arrays:
        if len(array):
            shape = [max(pair) for pair in zip(shape, array.shape[1:], strict=True)]
    first = arrays[0]
    filler = b"" if first.dtype == object else 0
    joined = np.full((sum(map(len, arrays)), *shape), filler, first.dtype)
    begin = 0
    for array in arrays:
        end = begin + len(array)
        if len(array):
            joined[begin:end][(slice(None), *map(slice, array.shape[1:]))] = array
        begin = end
    return joined
