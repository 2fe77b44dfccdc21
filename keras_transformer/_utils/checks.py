"""Checks of arguments. Each returns the checked value or raises an `ArgumentError`.

An `ArgumentError` is a `ValueError`, so layers and models behave as Keras users expect.
"""

import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import ArgumentError, UserError


def require_choice(name: str, value: Any, choices: Iterable[str]) -> Any:
    """Returns `value` if it is one of `choices`; the error lists them and the closest match."""
    choices = sorted(choices)
    if value in choices:
        return value
    close = difflib.get_close_matches(str(value), choices, n=1)
    known = ", ".join(repr(choice) for choice in choices)
    fix = f"Did you mean {close[0]!r}?" if close else None
    raise ArgumentError(name, f"one of {known}", value, fix=fix)


def require_positive_integer(name: str, value: Any) -> int:
    """Returns `value` as an `int` if it is a whole number of at least 1."""
    return require_integer(name, value, minimum=1)


def require_integer(name: str, value: Any, minimum: int) -> int:
    """Returns `value` as an `int` if it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ArgumentError(name, f"a whole number of at least {minimum}", value)
    return int(value)


def require_seed(name: str, value: Any) -> int:
    """Returns `value` as an `int` if it is an unsigned 64-bit integer."""
    if require_integer(name, value, minimum=0) >= 2**64:
        raise ArgumentError(name, "below 2**64", value)
    return int(value)


def require_boolean(name: str, value: Any) -> bool:
    """Returns `value` if it is `True` or `False`; numbers and strings are refused."""
    if not isinstance(value, bool):
        raise ArgumentError(name, "True or False", value)
    return value


def require_text(name: str, value: Any) -> str:
    """Returns `value` if it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ArgumentError(name, "text", value)
    return value


def require_mapping(name: str, value: Any) -> dict[str, Any]:
    """Returns `value` if it is a dictionary whose keys are strings."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ArgumentError(name, "a mapping from names to values", value)
    return value


def require_rate(name: str, value: Any) -> float:
    """Returns `value` as a `float` if it is in [0, 1), as dropout and smoothing rates are."""
    return _require_real(name, value, "a number in [0, 1)", lambda x: 0 <= x < 1)


def require_share(name: str, value: Any) -> float:
    """Returns `value` as a `float` if it is in [0, 1]."""
    return _require_real(name, value, "a number in [0, 1]", lambda x: 0 <= x <= 1)


def require_positive(name: str, value: Any) -> float:
    """Returns `value` as a `float` if it is finite and above 0."""
    return _require_real(name, value, "a finite number above 0", lambda x: 0 < x < math.inf)


def require_not_negative(name: str, value: Any) -> float:
    """Returns `value` as a `float` if it is finite and at least 0."""
    return _require_real(name, value, "a finite number of at least 0", lambda x: 0 <= x < math.inf)


def require_divisible(name: str, value: int, divisor_name: str, divisor: int) -> int:
    """Returns `value // divisor` if there is no remainder; the error names values that fit."""
    if value % divisor:
        below, above = value // divisor * divisor, (value // divisor + 1) * divisor
        fits = f"{below} or {above}" if below else f"{above}"
        expected = f"divisible by {divisor_name}={divisor}"
        fix = f"Use {name}={fits}, or another {divisor_name}."
        raise ArgumentError(name, expected, value, fix=fix, related=(divisor_name,))
    return value // divisor


def require_even(name: str, value: int) -> int:
    """Returns `value` if it is even."""
    if value % 2:
        raise ArgumentError(name, "even", value, fix=f"Use {name}={value - 1} or {value + 1}.")
    return value


def require_known_dim(name: str, shape: Sequence[int | None]) -> int:
    """Returns the last dimension of a shape if it is known when the layer is built."""
    if shape[-1] is None:
        raise UserError(
            f"The last axis of `{name}` must be known, because shapes of weights depend on it; got "
            f"{tuple(shape)}.",
            fix="Set it, as in keras.Input((None, 64)).",
        )
    return shape[-1]


def require_rank(name: str, tensor: Any, ranks: Mapping[int, str]) -> Any:
    """Returns `tensor` if its rank is a key of `ranks`, whose values are the axes' letters."""
    if len(tensor.shape) not in ranks:
        wanted = " or ".join(f"[{letters}]" for letters in ranks.values())
        raise UserError(f"`{name}` must have shape {wanted}; got {tuple(tensor.shape)}.")
    return tensor


def require_broadcastable(name: str, tensor: Any, letters: str, shape: Sequence[int | None]) -> Any:
    """Returns `tensor` if it can be broadcast to a shape of the same rank.

    Unknown dimensions are accepted. `letters` are those of the axes, such as "B, T, S".
    """
    for received, expected in zip(tensor.shape, shape, strict=True):
        if None not in (received, expected) and received not in (1, expected):
            raise UserError(
                f"`{name}` must be broadcastable to {shape}, [{letters}]; got "
                f"{tuple(tensor.shape)}."
            )
    return tensor


def _require_real(
    name: str, value: Any, expected: str, is_expected: Callable[[Any], bool]
) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not is_expected(value):
        raise ArgumentError(name, expected, value)
    return float(value)
