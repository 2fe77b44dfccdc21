"""How long the examples of a tokenised corpus are, for the data report."""

import dataclasses

import numpy as np

from keras_transformer.data.corpora.corpus_report import LengthSummary

# Enough for a picture; the printed report joins a few of them.
BINS = 48

# The histograms' bins share what this many of the examples do not exceed; one more bin holds the
# rest. Otherwise a single long line would push all others into one bin.
_SHARE_IN_BINS = 0.999


def describe_lengths(cache):
    """Returns the lengths in tokens, without START and END, in JSON's types.

    Args:
        cache: a `TokenCache`.

    Returns:
        A dictionary: `columns` has a summary for each column; `histogram` has the `bin_width` and
        the `counts` of each column, bin n being the lengths above n × width up to (n + 1) × width
        and the last bin all that is longer; `joint_histogram` has, for pairs, such counts for each
        bin of the source (rows) and of the target, and is else None.
    """
    names = list(cache.sequence_columns)
    by_length = [np.zeros(column.longest + 1, np.int64) for column in _columns(cache)]
    for lengths in cache.iterate_lengths():
        for counts, column_lengths in zip(by_length, lengths.T, strict=True):
            counts += np.bincount(column_lengths, minlength=len(counts))
    width, bins = _choose_bins(by_length)
    joint = np.zeros((bins + 1,) * len(names), np.int64)
    for lengths in cache.iterate_lengths():
        places = tuple(_bin_of(lengths, width, bins).T)
        flat = np.ravel_multi_index(places, joint.shape)
        joint += np.bincount(flat, minlength=joint.size).reshape(joint.shape)
    return {
        "columns": {name: _summary(counts) for name, counts in zip(names, by_length, strict=True)},
        "histogram": {
            "bin_width": width,
            "counts": {
                name: _other_axes_summed(joint, axis).tolist() for axis, name in enumerate(names)
            },
        },
        "joint_histogram": joint.tolist() if joint.ndim == 2 else None,
    }


def _columns(cache):
    return cache.sequence_columns.values()


def _choose_bins(by_length):
    """Returns the width of a bin and the number of bins, the one for the rest not counted."""
    longest = 1
    for counts in by_length:
        reached = np.searchsorted(counts.cumsum(), _SHARE_IN_BINS * counts.sum())
        longest = max(longest, int(reached))
    width = -(-longest // BINS)
    return width, -(-longest // width)


def _bin_of(lengths, width, bins):
    return np.clip((lengths - 1) // width, 0, bins)


def _summary(counts):
    lengths = np.flatnonzero(counts)
    by_length = dict(zip(lengths.tolist(), counts[lengths].tolist(), strict=True))
    return dataclasses.asdict(LengthSummary.of(by_length))


def _other_axes_summed(joint, axis):
    return joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))
