"""Agreement of two measures on which source tokens matter: Kendall's tau."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> np.ndarray:
    """Returns Kendall's tau-b along the last axis: 1 for the same order, -1 for the reverse.

    Kendall 1945, "The Treatment of Ties in Ranking Problems": the number of pairs of positions in
    the same order, minus the number of pairs in opposite order, divided by the geometric mean of
    the numbers of pairs without a tie on each side. If a side consists of ties only, tau is NaN.

    Args:
        first: Numbers `[..., N]`.
        second: Numbers `[..., N]`. The axes before the last are broadcast.

    >>> round(float(kendall_tau([1, 2, 2, 3], [1, 3, 2, 4])), 4)  # 5 / sqrt(5 · 6)
    0.9129
    """
    first, second = _orders(first), _orders(second)
    without_ties = np.sqrt(np.abs(first).sum(axis=-1) * np.abs(second).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return (first * second).sum(axis=-1) / without_ties


def _orders(values: npt.ArrayLike) -> np.ndarray:
    """Returns the order of each pair of positions as -1, 0 or 1: `[..., N · (N - 1) / 2]`."""
    values = np.asarray(values, np.float64)
    left, right = np.triu_indices(values.shape[-1], k=1)
    return np.sign(values[..., right] - values[..., left])


def chance_deviation(length: int) -> float:
    """Returns the standard deviation of tau of two random orders without ties (Kendall 1938).

    >>> round(chance_deviation(10), 3)
    0.248
    """
    if length < 2:
        return math.nan
    return math.sqrt(2 * (2 * length + 5) / (9 * length * (length - 1)))


@dataclasses.dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of two measures on which source tokens matter.

    Attributes:
        first: Name of a measure, such as "attention".
        second: Name of another measure.
        taus: Kendall's tau-b `[T]` for each target token; NaN where there is no order.
        is_same: Boolean `[T]`, whether both have the same strongest source token.
    """

    first: str
    second: str
    taus: np.ndarray
    is_same: np.ndarray

    @property
    def mean(self) -> float:
        """Mean of the taus over the target tokens."""
        return float(ignoring_nan(np.nanmean, self.taus))

    @property
    def deviation(self) -> float:
        """Standard deviation of the taus over the target tokens."""
        return float(ignoring_nan(np.nanstd, self.taus))


def ignoring_nan(reduce: Callable[..., Any], values: np.ndarray, **options: Any) -> Any:
    """Returns `reduce(values, **options)` without the warning that all values are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return reduce(values, **options)
