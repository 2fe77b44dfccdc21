"""Two measures beside one another."""

import dataclasses
import math
import warnings

import numpy as np


def kendall_tau(first, second):
    """Kendall's tau-b along the last axis: 1 for the same order, -1 for the reverse.

    Kendall 1945, "The Treatment of Ties in Ranking Problems". Of all pairs of places, those in the
    same order less those in opposite order, by the geometric mean of the numbers of pairs that
    either side tells apart. Where a side tells nothing apart there is no order to agree with, and
    tau is not a number.

    Args:
        first, second: numbers `[..., N]`, whose axes before the last can be broadcast.

    Returns:
        `[...]`.

    >>> round(float(kendall_tau([1, 2, 2, 3], [1, 3, 2, 4])), 4)  # 5 / sqrt(5 · 6)
    0.9129
    """
    first, second = _orders(first), _orders(second)
    told_apart = np.sqrt(np.abs(first).sum(axis=-1) * np.abs(second).sum(axis=-1))
    same_less_opposite = (first * second).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return same_less_opposite / told_apart


def chance_spread(places):
    """The standard deviation of tau between two random orders without ties (Kendall 1938).

    >>> round(chance_spread(10), 3)
    0.248
    """
    if places < 2:
        return math.nan
    return math.sqrt(2 * (2 * places + 5) / (9 * places * (places - 1)))


def _orders(values):
    """Which of each pair of places is larger, as -1, 0 or 1: `[..., N · (N - 1) / 2]`."""
    values = np.asarray(values, np.float64)
    left, right = np.triu_indices(values.shape[-1], k=1)
    return np.sign(values[..., right] - values[..., left])


@dataclasses.dataclass(frozen=True, eq=False)
class Agreement:
    """How much two measures agree about which source tokens matter.

    Attributes:
        first, second: names of measures, see `Explanation`.
        taus: Kendall's tau-b `[T]` for each target token; not a number where there is no order.
        is_same: boolean `[T]`, whether both have the same strongest source token.
    """

    first: str
    second: str
    taus: np.ndarray
    is_same: np.ndarray

    @property
    def mean(self):
        """Over the target tokens."""
        return over_numbers(np.nanmean, self.taus)

    @property
    def spread(self):
        """The standard deviation over the target tokens."""
        return over_numbers(np.nanstd, self.taus)


def over_numbers(reduce, values, **options):
    """A mean or the like of what is a number; not a number if nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return reduce(values, **options)
