"""Checks of arguments. Each returns the checked value or raises an `ArgumentError`."""

import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_transformer._utils.errors import ArgumentError, UserError

# Upper limits of numbers that users give, all in one table. A number beyond its limit is refused
# when it is read, before it can exhaust memory, build a huge graph, or overflow the integers of
# TensorFlow. The limits are far above all known uses. They apply to the argument, setting, option
# or key of this name, whatever it is part of.

#: Largest number without a limit of its own: that of 32-bit integers.
DEFAULT = 2**31 - 1

#: Largest values by name.
MAXIMA: dict[str, float] = {
    # Models
    "num_layers": 1000,
    "num_encoder_layers": 1000,
    "num_decoder_layers": 1000,
    "num_heads": 4096,
    "hidden_dim": 2**17,
    "key_dim": 2**17,
    "intermediate_dim": 2**20,
    "vocabulary_size": 2**24,
    "target_vocabulary_size": 2**24,
    "max_length": 2**24,
    # Search
    "beams": 1000,
    "n_best": 1000,
    "no_repeat_ngram": 64,
    "max_length_margin": 2**24,
    "min_length": 2**24,
    "length_penalty": 1e4,
    "coverage_penalty": 1e4,
    "repetition_penalty": 1e4,
    "max_length_ratio": 1e4,
    "min_length_ratio": 1e4,
    # Trainings
    "builtin_pairs": 100_000_000,
    "accumulate": 10_000,
    "max_buckets": 1000,
    "keep": 100_000,
    "attention": 100,
    "samples": 10_000,
    "show": 10_000,
    # Numbers of 64 bits
    "seed": 2**64 - 1,
    "version": 2**63 - 1,
}


def maximum_of(name: str, default: float = DEFAULT) -> float:
    """Returns the largest value of an argument, a dotted key or an option.

    >>> maximum_of("evaluation.search.beams"), maximum_of("--no-repeat-ngram")
    (1000, 64)
    """
    plain = name.rpartition(".")[2].lstrip("-").replace("-", "_").lower()
    return MAXIMA.get(plain, default)


def require_boolean_or_none(name: str, value: Any) -> bool | None:
    """Returns `value` if it is a boolean or None."""
    return None if value is None else require_boolean(name, value)


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
    """Returns `value` as an `int` if it is a whole number between `minimum` and its limit.

    The limits are in `MAXIMA`.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ArgumentError(name, f"a whole number of at least {minimum}", value)
    maximum = maximum_of(name)
    if int(value) > maximum:  # AutoGraph does not convert assignment expressions
        raise ArgumentError(name, f"at most {maximum}", value)
    return int(value)


def require_seed(name: str, value: Any) -> int:
    """Returns `value` as an `int` if it is an unsigned 64-bit integer."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not 0 <= int(value) < 2**64:
        raise ArgumentError(name, "a whole number of at least 0 and below 2**64", value)
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


def _number_check(expected: str, is_valid: Callable[[Any], bool]) -> Callable[[str, Any], float]:
    def require_number(name: str, value: Any) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or not is_valid(value):
            raise ArgumentError(name, expected, value)
        if float(value) > (maximum := maximum_of(name, math.inf)):
            raise ArgumentError(name, f"at most {maximum:g}", value)
        return float(value)

    return require_number


# Checks of real numbers, which are returned as `float`.
require_rate = _number_check("a number in [0, 1)", lambda x: 0 <= x < 1)
require_share = _number_check("a number in [0, 1]", lambda x: 0 <= x <= 1)
require_positive_share = _number_check("a number in (0, 1]", lambda x: 0 < x <= 1)
require_positive = _number_check("a finite number above 0", lambda x: 0 < x < math.inf)
require_not_negative = _number_check("a finite number of at least 0", lambda x: 0 <= x < math.inf)
require_at_least_one = _number_check("at least 1 and finite", lambda x: 1 <= x < math.inf)


#: Smallest and largest temperature of sampling other than 0. Divided by less, log-probabilities
#: overflow in float32, and any token could be drawn; with more, all tokens are equally likely.
TEMPERATURES = (1e-4, 1e4)


def require_temperature(name: str, value: Any) -> float:
    """Returns `value` as a `float` if it is a temperature of sampling."""
    lowest, highest = TEMPERATURES
    if require_not_negative(name, value) and not lowest <= value <= highest:
        raise ArgumentError(name, f"0, or from {lowest:g} to {highest:g}", value)
    return float(value)


def require_divisible(name: str, value: int, divisor_name: str, divisor: int) -> int:
    """Returns `value // divisor` if there is no remainder; the error names values that fit."""
    if value % divisor:
        below, above = value // divisor * divisor, (value // divisor + 1) * divisor
        expected = f"divisible by {divisor_name}={divisor}"
        fits = f"{below} or {above}" if below else above
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
        why = "because shapes of weights depend on it"
        problem = f"The last axis of `{name}` must be known, {why}; got {tuple(shape)}."
        raise UserError(problem, fix="Set it, as in keras.Input((None, 64)).")
    return shape[-1]


def require_rank(name: str, tensor: Any, ranks: Mapping[int, str]) -> Any:
    """Returns `tensor` if its rank is a key of `ranks`, whose values are the axes' letters."""
    if len(tensor.shape) not in ranks:
        wanted = " or ".join(f"[{letters}]" for letters in ranks.values())
        raise UserError(f"`{name}` must have shape {wanted}; got {tuple(tensor.shape)}.")
    return tensor


def require_broadcastable(name: str, tensor: Any, letters: str, shape: Sequence[int | None]) -> Any:
    """Returns `tensor` if it can be broadcast to a shape `[letters]` of the same rank."""
    for received, expected in zip(tensor.shape, shape, strict=True):
        if None not in (received, expected) and received not in (1, expected):
            expected = f"broadcastable to {shape}, [{letters}]"
            raise ArgumentError(name, expected, tuple(tensor.shape))
    return tensor
