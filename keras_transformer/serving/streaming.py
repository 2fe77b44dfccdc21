"""Answers token by token, as server-sent events: `POST /v1/models/NAME:stream`.

A stream calls the signature `next_tokens` again and again. Each call waits in the queue as other
requests do, so that streams and batches share the workers, and keeps nothing in the worker.
"""

import json
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
from starlette.responses import Response, StreamingResponse

from keras_transformer.serving.errors import Code, RequestError, invalid
from keras_transformer.serving.json_codec import parse_object
from keras_transformer.serving.manager import ModelManager, Version
from keras_transformer.serving.rest import Exchange, ModelSpec, RestApp, check_limits
from keras_transformer.serving.servable import Arrays, ServedSignature

#: The signature that is called.
SIGNATURE = "next_tokens"

_KEYS = ("text", "temperature", "seed")
# Replacement for an incomplete character, whose other bytes are in later tokens.
_INCOMPLETE = "\ufffd"


class Streams:
    """The handler of `:stream`.

    The body is `{"text": "…"}`, optionally with "temperature" (default 0, the most likely token
    each time) and "seed". The events are

    ```
    data: {"delta": "two "}           further text
    data: {"text": "two dogs"}        all of the text, where it does not continue the last one
    event: done
    data: {"text": "two dogs", "tokens": 3, "version": 1}
    event: error
    data: {"error": "…", "code": "DEADLINE_EXCEEDED"}
    ```

    Args:
        app: the `RestApp`, whose limits apply.
    """

    def __init__(self, app: RestApp) -> None:
        self.app = app
        self.count = 0

    async def handle(self, exchange: Exchange, spec: ModelSpec) -> Response:
        """Answers a request for a stream."""
        app = self.app
        document = parse_object(await app.read_body(exchange.request))
        text, temperature, seed = _settings(document)
        version = app.manager.find(spec.name, spec.version, spec.label)
        exchange.notes.update(version=version.number, signature=SIGNATURE, rows=1)
        signature = version.signatures.get(SIGNATURE)
        if signature is None:
            fix = f"Export it again with --signatures translate {SIGNATURE}."
            message = f"The model {spec.name} has no signature {SIGNATURE}. {fix}"
            raise RequestError(Code.UNIMPLEMENTED, message)
        inputs = {
            "text": np.array([text.encode()], object),
            "state": np.array([], object),
            "temperature": np.float32(temperature),
            "seed": np.int32(seed),
            "steps": np.int32(0),
        }
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        check_limits(app.limits, 1, {"text": arrays["text"]})
        if self.count >= app.limits.streams:
            message = f"There are {self.count} streams already."
            raise RequestError(Code.RESOURCE_EXHAUSTED, message, retry_after=1)
        # The version stays loaded until the stream has ended.
        hold = app.manager.hold(version)
        hold.__enter__()
        self.count += 1

        def end() -> None:
            self.count -= 1
            hold.__exit__(None, None, None)

        try:
            deadline = exchange.started + app.limits.stream_seconds
            texts = written_texts(app.manager, version, signature, arrays, deadline)
            first = await anext(texts)  # an error of the request has a status of its own
        except BaseException:
            end()
            raise
        return _EventResponse(_events(texts, first[0], version), end)


class _EventResponse(StreamingResponse):
    """A response of events that calls a function when it ends for any reason."""

    def __init__(self, events: AsyncIterator[bytes], end: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._end = end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def written_texts(
    manager: ModelManager,
    version: Version,
    signature: ServedSignature,
    inputs: Arrays,
    deadline: float = math.inf,
) -> AsyncIterator[tuple[str, int, bool]]:
    """Yields the text so far, the number of further tokens, and whether the text is complete.

    The first one has no further tokens: the prompt of a language model, or "" of a translation.

    Args:
        manager: the `ModelManager`.
        version: a version that stays loaded.
        signature: its signature `next_tokens`.
        inputs: the inputs of the first call.
        deadline: time of `time.monotonic` at which the stream must have ended.
    """
    tokens = 0
    while True:
        outputs = await manager.predict(version, signature, inputs, deadline)
        text = outputs["text"][0].decode("utf-8", "replace")
        is_done = bool(outputs["done"][0])
        yield text, tokens, is_done
        if is_done:
            return
        if time.monotonic() > deadline:
            message = "The stream has taken too long."
            raise RequestError(Code.DEADLINE_EXCEEDED, message)
        steps = np.asarray(np.int32(1))
        no_text = np.array([], object)
        inputs = {**inputs, "text": no_text, "state": outputs["state"], "steps": steps}
        tokens += 1


async def _events(
    texts: AsyncIterator[tuple[str, int, bool]], first: str, version: Version
) -> AsyncIterator[bytes]:
    """Yields the events of a stream that begins with the text `first`."""
    sent, text, tokens = first, first, 0
    try:
        async for text, count, is_done in texts:
            tokens = count
            shown = text if is_done else text.rstrip(_INCOMPLETE)
            if shown.startswith(sent):
                if len(shown) > len(sent):
                    yield _event({"delta": shown[len(sent) :]})
            elif not sent.startswith(shown):
                yield _event({"text": shown[len(first) :] if shown.startswith(first) else shown})
            else:
                continue
            sent = shown
        content = {"text": text.removeprefix(first), "tokens": tokens, "version": version.number}
        yield _event(content, "done")
    except RequestError as error:
        yield _event({"error": error.message, "code": error.code.name}, "error")


def _event(content: dict[str, Any], name: str | None = None) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


def _settings(document: dict[str, Any]) -> tuple[str, float, int]:
    for key in document:
        if key not in _KEYS:
            raise invalid(f"Unknown key {key[:40]!r}; the keys are {', '.join(_KEYS)}.")
    text = document.get("text")
    temperature, seed = document.get("temperature", 0), document.get("seed", 0)
    if not isinstance(text, str):
        raise invalid("'text' must be a text.")
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature <= 1e4:
        raise invalid("'temperature' must be a number from 0 to 10000.")
    is_integer = isinstance(seed, int) and not isinstance(seed, bool)
    if not is_integer or not 0 <= seed < 2**31:
        raise invalid("'seed' must be a whole number from 0 to 2147483647.")
    return text, float(temperature), seed
