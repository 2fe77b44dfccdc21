"""Serves exports over REST and gRPC, compatible with TensorFlow Serving.

  keras-transformer serve saved_models/
  keras-transformer serve saved_models/dates --port 8501 --grpc-port 8500
  keras-transformer serve --config models.config --host 0.0.0.0 --api-key-file key.txt

  curl http://localhost:8501/v1/models/dates:predict -d '{"instances": ["7 mars 2025"]}'

The highest version of each model is served. New versions are found, verified, warmed up and put in
place of the old ones without a failed request; a damaged version replaces nothing, and its error is
shown at http://localhost:8501/v1/models/NAME. Requests that arrive while all workers are busy are
answered in batches. SIGTERM stops the server after it has answered the requests that it has
received.

/healthz and /readyz are for orchestrators, /metrics for Prometheus, /models lists the models. The
API key is read from a file or from the environment variable KERAS_TRANSFORMER_API_KEY; clients send
it as `Authorization: Bearer KEY` or `X-API-Key: KEY`, and to gRPC as metadata of these names.
"""

import argparse
import logging
import os

from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

SUMMARY = "serve exports over REST and gRPC"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models = "saved_models, the directory of one model, or of a version"
    parser.add_argument("directory", metavar="DIR", nargs="?", help=models)
    add = parser.add_argument
    name = "name of the model in requests, if DIR is one model (default: its directory's)"
    add("--name", metavar="NAME", help=name)
    add("--config", metavar="FILE", help="models, in the text format of TensorFlow Serving")
    key = "serve only versions that one of the public keys in FILE has signed; see `sign`"
    add("--key", metavar="FILE", help=key)
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, metavar="N", default=8501, help="for REST (default: %(default)s)")
    grpc = "for gRPC (default: %(default)s; -1: no gRPC)"
    add("--grpc-port", type=int, metavar="N", default=8500, help=grpc)
    poll = "time between checks for new versions (default: %(default)s; 0: check once)"
    add("--poll-seconds", type=float, metavar="S", default=1.0, help=poll)
    drain = "time for the last answers after SIGTERM (default: %(default)s)"
    add("--drain-seconds", type=float, metavar="S", default=30.0, help=drain)
    log = "write a line of JSON for each request; - for standard output"
    add("--access-log", metavar="FILE", help=log)

    add = parser.add_argument_group("speed").add_argument
    workers = "batches computed at a time, each on one core (default: the number of cores)"
    add("--workers", type=int, metavar="N", help=workers)
    kind = "threads share the models, processes have copies (default: %(default)s)"
    add("--worker-kind", choices=("threads", "processes"), default="threads", help=kind)
    rows = "largest number of rows of a batch (default: %(default)s)"
    add("--max-batch-rows", type=int, metavar="N", default=64, help=rows)
    waiting = "rows that may wait; further ones get status 429 (default: %(default)s)"
    add("--max-waiting-rows", type=int, metavar="N", default=4096, help=waiting)

    add = parser.add_argument_group("limits of a request").add_argument
    add("--max-body-bytes", type=int, metavar="N", default=4 << 20, help="default: %(default)s")
    add("--max-rows", type=int, metavar="N", default=4096, help="default: %(default)s")
    add("--max-text-bytes", type=int, metavar="N", default=1 << 20, help="default: %(default)s")
    add("--timeout", type=float, metavar="S", default=30.0, help="default: %(default)s")
    add("--max-connections", type=int, metavar="N", default=1000, help="default: %(default)s")

    add = parser.add_argument_group("access").add_argument
    add("--api-key-file", metavar="FILE", help=shared.API_KEY_HELP)
    add("--tls-certificate", metavar="FILE", help="certificate chain, PEM")
    add("--tls-key", metavar="FILE", help="private key of the certificate, PEM")
    origin = "origin whose web pages may read answers; may be repeated"
    add("--cors-origin", metavar="ORIGIN", action="append", default=[], help=origin)


def run(arguments: argparse.Namespace) -> int | None:
    if (arguments.directory is None) == (arguments.config is None):
        raise UserError("Give either the directory DIR or a --config.")
    if arguments.name is not None and arguments.config is not None:
        raise UserError("The file of --config names the models.", argument="--name")
    for name in ("tls_certificate", "tls_key", "api_key_file", "key", "config"):
        path = getattr(arguments, name)
        if path is not None and not os.path.isfile(path):
            raise UserError("no such file.", where=path)
    return shared.run_with_tensorflow(serve, arguments)


def serve(arguments: argparse.Namespace) -> None:
    """Serves the models until SIGTERM or Ctrl-C."""
    from keras_transformer._utils.process import available_cores

    try:
        from keras_transformer.serving import (
            RequestLimits,
            Server,
            ServerSettings,
            find_models,
            read_model_config,
        )
        from keras_transformer.serving.server import run_server
    except ModuleNotFoundError as error:
        fix = "Install them: pip install 'keras-transformer-tf[serve]'."
        raise UserError(f"The server needs more packages ({error}).", fix=fix) from error

    limits = RequestLimits(
        body_bytes=arguments.max_body_bytes,
        rows=arguments.max_rows,
        text_bytes=arguments.max_text_bytes,
        seconds=arguments.timeout,
        connections=arguments.max_connections,
    )
    settings = ServerSettings(
        host=arguments.host,
        port=arguments.port,
        grpc_port=None if arguments.grpc_port == -1 else arguments.grpc_port,
        workers=len(available_cores()) if arguments.workers is None else arguments.workers,
        worker_kind=arguments.worker_kind,
        max_batch_rows=arguments.max_batch_rows,
        max_waiting_rows=arguments.max_waiting_rows,
        poll_seconds=arguments.poll_seconds,
        drain_seconds=arguments.drain_seconds,
        limits=limits,
        key=arguments.key,
        api_key=shared.read_api_key(arguments.api_key_file),
        tls_certificate=arguments.tls_certificate,
        tls_key=arguments.tls_key,
        cors_origins=tuple(arguments.cors_origin),
        access_log=arguments.access_log,
    )
    if arguments.config is not None:
        sources = read_model_config(arguments.config)
    else:
        sources = find_models(arguments.directory, arguments.name)
    _log_to_standard_error()
    run_server(Server(sources, settings))


def _log_to_standard_error() -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            shared.tell(self.format(record))

    handler = Handler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    levels = {
        "keras_transformer.serving": logging.INFO,
        "uvicorn": logging.ERROR,
        # It would print a traceback for each call whose bytes are not a valid message.
        "grpc._cython.cygrpc": logging.CRITICAL,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
