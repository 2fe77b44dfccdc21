"""Kendall's tau-b against values computed by hand."""

import itertools
import math

import numpy as np
import pytest

from keras_transformer.analysis.explain.explanation import chance_deviation, kendall_tau


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        # Five of six pairs are in the same order.
        ([1, 2, 3, 4], [1, 3, 2, 4], 4 / 6),
        # Five pairs are in the same order; one is a tie on the left: 5 / sqrt(5 · 6).
        ([1, 2, 2, 3], [1, 3, 2, 4], 5 / math.sqrt(30)),
        # Two pairs are in the same order, two are not, and two are ties.
        ([1, 1, 2, 2], [1, 3, 2, 2], 0.0),
        # Three pairs are in the same order; two are ties on the left, one on the right.
        ([1, 1, 2, 2], [1, 2, 2, 3], 3 / math.sqrt(4 * 5)),
    ],
)
def test_tau_equals_values_by_hand(first, second, tau):
    assert kendall_tau(first, second) == pytest.approx(tau)
    assert kendall_tau(second, first) == pytest.approx(tau)


def test_tau_of_matrices_compares_rows(random):
    first, second = random.random((3, 6)), random.random((3, 6))
    taus = kendall_tau(first, second)
    assert taus.shape == (3,)
    for row in range(3):
        assert taus[row] == kendall_tau(first[row], second[row])


def test_tau_of_ties_only_is_nan():
    assert math.isnan(kendall_tau([1, 1, 1], [1, 2, 3]))
    assert math.isnan(kendall_tau([1], [2]))


def test_chance_deviation_is_that_of_all_orders():
    taus = [kendall_tau(range(5), order) for order in itertools.permutations(range(5))]
    assert np.mean(taus) == pytest.approx(0, abs=1e-12)
    assert chance_deviation(5) == pytest.approx(np.std(taus))
    assert math.isnan(chance_deviation(1))
