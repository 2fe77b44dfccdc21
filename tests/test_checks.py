import math

import numpy as np
import pytest

from keras_transformer._utils import checks


@pytest.mark.parametrize(
    ("check", "good", "bad", "message"),
    [
        (checks.require_positive_integer, [1, np.int64(7)], [0, -1, 1.0, True, "1", None], "whole"),
        (checks.require_rate, [0, 0.5, np.float32(0.25)], [1, -0.1, math.nan, True, "0"], "[0, 1)"),
        (checks.require_positive, [1, 1e-9], [0, -1, math.inf, math.nan, True, "1"], "above 0"),
        (checks.require_not_negative, [0, 2.5], [-1, math.inf, math.nan, True], "at least 0"),
        (checks.require_seed, [0, 2**64 - 1], [-1, 2**64, 1.5, True], "`x` must be"),
        (checks.require_share, [0, 1, 0.5], [-0.1, 1.1, math.nan, True, "0"], "[0, 1];"),
        (checks.require_text, ["a"], ["", 1, None, ["a"]], "text"),
        (checks.require_mapping, [{}, {"a": 1}], [None, [], "a", {1: 2}], "mapping"),
        (checks.require_boolean, [True, False], [0, 1, "yes", None], "True or False"),
    ],
)
def test_each_check_says_what_came(check, good, bad, message):
    for value in good:
        assert check("x", value) == value
    for value in bad:
        with pytest.raises(ValueError, match="`x` must be") as caught:
            check("x", value)
        assert message in str(caught.value)
        assert str(caught.value).endswith(f"got {value!r}.")


def test_the_nearest_choice_is_suggested():
    assert checks.require_choice("color", "red", {"red", "green"}) == "red"
    with pytest.raises(ValueError, match=r"`color` must be one of 'green', 'red'; got 'gren'\. "):
        checks.require_choice("color", "gren", {"red", "green"})
    with pytest.raises(ValueError, match="Did you mean 'green'"):
        checks.require_choice("color", "gren", {"red", "green"})
    with pytest.raises(ValueError, match=r"got None\.$"):
        checks.require_choice("color", None, {"red", "green"})


def test_what_does_not_divide_gets_two_that_do():
    assert checks.require_divisible("hidden_dim", 12, "heads", 4) == 3
    with pytest.raises(ValueError, match="Use hidden_dim=12 or 16, or another heads"):
        checks.require_divisible("hidden_dim", 14, "heads", 4)
    with pytest.raises(ValueError, match="Use hidden_dim=4, or another heads"):
        checks.require_divisible("hidden_dim", 3, "heads", 4)


def test_ranks_are_given_as_letters():
    assert checks.require_rank("x", np.zeros(3), {1: "T"}).shape == (3,)
    with pytest.raises(ValueError, match=r"`x` must have shape \[T\] or \[B, T\]; got \(2, 3, 4\)"):
        checks.require_rank("x", np.zeros((2, 3, 4)), {1: "T", 2: "B, T"})
