"""A server as it is often written: a framework, `tf.saved_model.load`, and a call a request.

python -m training.serving.naive_server VERSION_DIRECTORY PORT
"""

import sys
from typing import Any


def make_app(directory: str) -> Any:
    """Returns the application."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    predict = tf.saved_model.load(directory).signatures["serving_default"]

    def answer(texts: list[str]) -> list[str]:
        found = predict(text=tf.constant(texts))["text"].numpy()
        return [text.decode() for text in found.tolist()]

    async def handle(request: Request) -> JSONResponse:
        texts = (await request.json())["instances"]
        return JSONResponse({"predictions": await run_in_threadpool(answer, texts)})

    async def health(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    answer(["warm up"])
    path = "/v1/models/{name}:predict"
    return Starlette(routes=[Route(path, handle, methods=["POST"]), Route("/healthz", health)])


def main(directory: str, port: str) -> None:
    """Serves an export until it is ended."""
    import uvicorn

    uvicorn.run(make_app(directory), port=int(port), access_log=False, log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
