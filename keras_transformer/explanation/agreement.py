"""Two measures beside one another."""

import dataclasses
import warnings

import numpy as np


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
