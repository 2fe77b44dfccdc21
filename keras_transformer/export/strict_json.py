"""Reading of JSON from files that may be damaged or hostile."""

import json
from typing import Any, NoReturn


def parse_json(content: bytes) -> Any:
    """Returns the value of JSON in UTF-8; everything that is not plain JSON is a `ValueError`.

    Unlike `json.loads`, it refuses NaN, infinities and keys that occur twice, which readers in
    other languages understand differently, and nesting beyond Python's recursion limit.

    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' occurs twice
    """
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} occurs twice")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large")
    return number
