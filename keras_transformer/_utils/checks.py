"""Checks of arguments, each message written once: what was expected, what came, and the fix.

They raise `ValueError`, so that layers and models behave as Keras users expect.
"""

import difflib
import math
import numbers


def require_choice(name, value, choices):
    """Returns `value` if it is one of `choices`; else names them all and the nearest."""
    choices = sorted(choices)
    if value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(repr(choice) for choice in choices)
    raise ValueError(f"`{name}` must be one of {known}; got {value!r}.{hint}")


def require_positive_integer(name, value):
    """Returns `value` as an `int` if it is a whole number of at least 1."""
    return require_integer(name, value, minimum=1)


def require_integer(name, value, minimum):
    """Returns `value` as an `int` if it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"`{name}` must be a whole number of at least {minimum}; got {value!r}.")
    return int(value)


def require_seed(name, value):
    """Returns `value` as an `int` if it is a whole number of 64 bits."""
    if require_integer(name, value, minimum=0) >= 2**64:
        raise ValueError(f"`{name}` must be below 2**64; got {value!r}.")
    return int(value)


def require_boolean(name, value):
    """Returns `value` if it is True or False, not something that counts as one of them."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False; got {value!r}.")
    return value


def require_text(name, value):
    """Returns `value` if it is a string that holds something."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{name}` must be text; got {value!r}.")
    return value


def require_mapping(name, value):
    """Returns `value` if it is a mapping from names to values."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"`{name}` must be a mapping from names to values; got {value!r}.")
    return value


def require_rate(name, value):
    """Returns `value` as a `float` if it lies in [0, 1): a share of dropout or smoothing."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1); got {value!r}.")
    return float(value)


def require_share(name, value):
    """Returns `value` as a `float` if it lies in [0, 1]: nothing, all, or something between."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be a number in [0, 1]; got {value!r}.")
    return float(value)


def require_positive(name, value):
    """Returns `value` as a `float` if it is finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value < math.inf:
        raise ValueError(f"`{name}` must be a finite number above 0; got {value!r}.")
    return float(value)


def require_not_negative(name, value):
    """Returns `value` as a `float` if it is finite and at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < math.inf:
        raise ValueError(f"`{name}` must be a finite number of at least 0; got {value!r}.")
    return float(value)


def require_divisible(name, value, divisor_name, divisor):
    """Returns `value // divisor` if nothing is left over; else names what would fit."""
    if value % divisor:
        below, above = value // divisor * divisor, (value // divisor + 1) * divisor
        fits = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"`{name}` must be divisible by `{divisor_name}`; got {name}={value} and "
            f"{divisor_name}={divisor}. Use {name}={fits}, or another {divisor_name}."
        )
    return value // divisor


def require_even(name, value):
    """Returns `value` if two divide it."""
    if value % 2:
        raise ValueError(
            f"`{name}` must be even; got {value}. Use {name}={value - 1} or {value + 1}."
        )
    return value


def require_known_width(name, shape):
    """Returns the last axis of a shape if it is known before any data comes."""
    if shape[-1] is None:
        raise ValueError(
            f"The last axis of `{name}` must be known, as it decides the shapes of weights; got "
            f"{tuple(shape)}. Give it in keras.Input((None, width))."
        )
    return shape[-1]


def require_rank(name, tensor, ranks):
    """Checks that a tensor's rank is one of `ranks`, a mapping from rank to the shape's letters."""
    if len(tensor.shape) not in ranks:
        wanted = " or ".join(f"[{letters}]" for letters in ranks.values())
        raise ValueError(f"`{name}` must have shape {wanted}; got {tuple(tensor.shape)}.")
    return tensor


def require_broadcastable(name, tensor, letters, shape):
    """Checks that a tensor fits a shape, or has 1 in its place; what is unknown may fit.

    Args:
        name: of the argument.
        tensor: of as many axes as `shape` has.
        letters: what the axes of `shape` are called, such as "B, T, S".
        shape: a tuple, with None where an axis is not known.
    """
    for have, want in zip(tensor.shape, shape, strict=True):
        if None not in (have, want) and have not in (1, want):
            raise ValueError(
                f"`{name}` must be broadcastable to {shape}, [{letters}]; got "
                f"{tuple(tensor.shape)}."
            )
    return tensor
