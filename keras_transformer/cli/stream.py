"""Prints what a server writes, token by token.

  keras-transformer stream http://localhost:8501/v1/models/stories "Once upon a time"
  keras-transformer stream http://localhost:8501/v1/models/stories --temperature 0.8 --seed 7 < text

The server is `keras-transformer serve`, and the model was exported with the signature next_tokens.
The API key is read from a file or from the environment variable KERAS_TRANSFORMER_API_KEY.
"""

import argparse
import http.client
import json
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any

from keras_transformer._utils.checks import require_temperature
from keras_transformer._utils.console import for_stream
from keras_transformer._utils.errors import UserError
from keras_transformer.cli import shared

SUMMARY = "print what a server writes, token by token"

_LONGEST_EVENT = 1 << 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="http://HOST:PORT/v1/models/NAME")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="default: standard input")
    add = parser.add_argument
    add("--temperature", type=float, metavar="T", default=0.0, help="default: 0, no sampling")
    add("--seed", type=int, metavar="S", default=0, help="the same seed gives the same text")
    add("--api-key-file", metavar="FILE", help=shared.API_KEY_HELP)


def run(arguments: argparse.Namespace) -> int | None:
    require_temperature("--temperature", arguments.temperature)
    text = sys.stdin.read() if arguments.text is None else arguments.text
    key = shared.read_api_key(arguments.api_key_file)
    content = {"text": text, "temperature": arguments.temperature, "seed": arguments.seed}
    for event, data in events(arguments.url, content, key):
        if event == "error":
            raise UserError(str(data.get("error")), where=arguments.url)
        if event == "done":
            break
        if "delta" not in data:  # this text replaces the text so far
            _write("\n")
        _write(data.get("delta", data.get("text", "")))
    _write("\n")
    return None


def _write(text: str) -> None:
    sys.stdout.write(for_stream(text, sys.stdout))
    sys.stdout.flush()


def events(url: str, content: dict[str, Any], key: str | None) -> Iterator[tuple[str, Any]]:
    """Yields name and data of the server's events.

    Args:
        url: address of the model, or of its `:stream`.
        content: the request.
        key: the API key; None for none.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fix = "Give http://HOST:PORT/v1/models/NAME."
        raise UserError("is not the address of a model.", where=url, fix=fix)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=120)
    path = parts.path.removesuffix(":stream") + ":stream"
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        connection.request("POST", path, json.dumps(content).encode(), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise UserError(_error_of(response), where=url)
        name = "message"
        while line := response.readline(_LONGEST_EVENT).decode("utf-8", "replace"):
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)
                name = "message"
    except (OSError, http.client.HTTPException) as error:
        fix = "Start `keras-transformer serve`, or give its address."
        raise UserError(f"no answer ({error}).", where=url, fix=fix) from error
    finally:
        connection.close()


def _error_of(response: http.client.HTTPResponse) -> str:
    try:
        return str(json.loads(response.read(_LONGEST_EVENT))["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status}."
