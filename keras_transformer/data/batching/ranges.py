"""Many short ranges as one array: how ragged rows are read and written without a loop."""

import numpy as np


def concatenated_ranges(begins, counts):
    """Returns `begins[i], begins[i] + 1, …` (`counts[i]` of them) for all i, one after the other.

    Example:

    >>> concatenated_ranges([10, 50], [3, 2])
    array([10, 11, 12, 50, 51])
    """
    counts = np.asarray(counts, np.int64)
    ends = np.cumsum(counts)
    shifts = np.asarray(begins, np.int64) - (ends - counts)
    return np.repeat(shifts, counts) + np.arange(counts.sum())
