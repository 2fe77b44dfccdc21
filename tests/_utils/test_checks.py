"""Checks of arguments: allowed values, refused values, and the facts in the errors."""

import math

import numpy as np
import pytest

from keras_transformer._utils import checks
from keras_transformer._utils.errors import ArgumentError
from tests.mistakes import assert_mistake


@pytest.mark.parametrize(
    ("check", "good", "bad", "expected"),
    [
        (checks.require_positive_integer, [1, np.int64(7)], [0, -1, 1.0, True, "1", None], "1"),
        (checks.require_rate, [0, 0.5, np.float32(0.25)], [1, -0.1, math.nan, True, "0"], "[0, 1)"),
        (checks.require_positive, [1, 1e-9], [0, -1, math.inf, math.nan, True, "1"], "above 0"),
        (checks.require_not_negative, [0, 2.5], [-1, math.inf, math.nan, True], "at least 0"),
        (checks.require_seed, [0, 2**64 - 1], [-1, 2**64, 1.5, True], ""),
        (checks.require_share, [0, 1, 0.5], [-0.1, 1.1, math.nan, True, "0"], "[0, 1]"),
        (checks.require_positive_share, [1, 0.5], [0, 1.1, math.nan, True, "1"], "(0, 1]"),
        (checks.require_at_least_one, [1, 2.5], [0.9, math.inf, math.nan, True], "at least 1"),
        (checks.require_text, ["a"], ["", 1, None, ["a"]], "text"),
        (checks.require_mapping, [{}, {"a": 1}], [None, [], "a", {1: 2}], "mapping"),
        (checks.require_boolean, [True, False], [0, 1, "yes", None], "True or False"),
        (checks.require_even, [0, 2], [1, -3], "even"),
    ],
)
def test_check_returns_good_values_and_refuses_bad_ones(check, good, bad, expected):
    for value in good:
        assert check("x", value) == value
    for value in bad:
        with pytest.raises(ArgumentError) as caught:
            check("x", value)
        assert_mistake(caught.value, key="x", expected=expected, got=value)


@pytest.mark.parametrize("value", [4.5, "4", True, None, 1])
def test_require_integer_has_a_minimum(value):
    assert checks.require_integer("x", np.int32(2), minimum=2) == 2
    with pytest.raises(ArgumentError) as caught:
        checks.require_integer("x", value, minimum=2)
    assert_mistake(caught.value, key="x", expected="2", got=value)


def test_require_choice_lists_the_choices_and_suggests_the_closest():
    assert checks.require_choice("color", "red", {"red", "green"}) == "red"
    with pytest.raises(ArgumentError) as caught:
        checks.require_choice("color", "gren", {"red", "green"})
    assert_mistake(caught.value, key="color", expected="'green', 'red'", got="gren", fix="'green'")
    with pytest.raises(ArgumentError) as caught:
        checks.require_choice("color", None, {"red", "green"})
    assert assert_mistake(caught.value, key="color", got=None).fix is None


@pytest.mark.parametrize(("value", "fits"), [(14, "=12 or 16"), (3, "=4")])
def test_require_divisible_suggests_values_that_fit(value, fits):
    assert checks.require_divisible("hidden_dim", 12, "heads", 4) == 3
    with pytest.raises(ArgumentError) as caught:
        checks.require_divisible("hidden_dim", value, "heads", 4)
    error = assert_mistake(
        caught.value, key="hidden_dim", expected="heads=4", got=value, fix=f"hidden_dim{fits},"
    )
    assert error.arguments == ("hidden_dim", "heads")


def test_require_rank_names_the_axes():
    assert checks.require_rank("x", np.zeros(3), {1: "T"}).shape == (3,)
    with pytest.raises(ValueError, match=r"`x` .*\[T\] or \[B, T\].*\(2, 3, 4\)"):
        checks.require_rank("x", np.zeros((2, 3, 4)), {1: "T", 2: "B, T"})


def test_require_known_dim_returns_the_last_dimension():
    assert checks.require_known_dim("x", (None, 3)) == 3
    with pytest.raises(ValueError, match=r"`x` .*\(3, None\)"):
        checks.require_known_dim("x", (3, None))


def test_require_broadcastable_accepts_ones_and_unknown_dimensions():
    tensor = np.zeros((1, 3))
    assert checks.require_broadcastable("x", tensor, "B, T", (2, 3)) is tensor
    assert checks.require_broadcastable("x", tensor, "B, T", (None, None)) is tensor
    with pytest.raises(ValueError, match=r"`x` .*\(2, 4\), \[B, T\].*\(1, 3\)"):
        checks.require_broadcastable("x", tensor, "B, T", (2, 4))
