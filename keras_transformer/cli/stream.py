"""Prints what a server writes, token by token.

  keras-transformer stream http://localhost:8501/v1/models/stories "Once upon a time"
  keras-transformer stream http://localhost:8501/v1/models/stories --temperature 0.8 --seed 7 < text

The server is `keras-transformer serve`, and the model was exported with the signature next_tokens.
The API key is read from a file or from the environment variable KERAS_TRANSFORMER_API_KEY.
"""

import argparse
import http.client
import sys

from keras_transformer._utils.checks import require_temperature
from keras_transformer._utils.console import for_stream
from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

SUMMARY = "print what a server writes, token by token"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="http://HOST:PORT/v1/models/NAME")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="default: standard input")
    add = parser.add_argument
    add("--temperature", type=float, metavar="T", default=0.0, help="default: 0, no sampling")
    add("--seed", type=int, metavar="S", default=0, help="the same seed gives the same text")
    add("--api-key-file", metavar="FILE", help=shared.API_KEY_HELP)


def run(arguments: argparse.Namespace) -> int | None:
    from keras_transformer.serving import Client, ServerError

    require_temperature("--temperature", arguments.temperature)
    text = sys.stdin.read() if arguments.text is None else arguments.text
    key, options = shared.read_api_key(arguments.api_key_file), vars(arguments)
    sampling = {name: options[name] for name in ("temperature", "seed")}
    shown = ""
    try:
        with Client(arguments.url.removesuffix(":stream"), api_key=key) as client:
            for written in client.stream(text, **sampling):
                is_longer = written.startswith(shown)
                _write(written[len(shown) :] if is_longer else f"\n{written}")
                shown = written
    except ServerError as error:
        raise UserError(error.message, where=arguments.url) from error
    except (OSError, http.client.HTTPException) as error:
        fix = "Start `keras-transformer serve`, or give its address."
        raise UserError(f"no answer ({error}).", where=arguments.url, fix=fix) from error
    _write("\n")
    return None


def _write(text: str) -> None:
    sys.stdout.write(for_stream(text, sys.stdout))
    sys.stdout.flush()
