"""How much longer texts become when they are cut at random."""

import numpy as np
import tensorflow as tf

# Of the corpus, evenly spread: enough to tell a quantile to a few percent.
_EXAMPLES = 1000

# The share of samples that must fit. Those that do not keep the ids of the cache, see
# `BucketedBatches`, and room for the longest of them would be padding in all other rows.
_FITTING = 0.9


def room_for_samples(cache, samplers):
    """Returns the `room` of each column, a tuple: that in which nine in ten samples fit.

    The same cache and samplers give the same room.

    Args:
        cache: the `TokenCache`, with its text.
        samplers: see `BucketedBatches`. A column without one needs no more than it has.
    """
    examples = np.unique(np.linspace(0, len(cache) - 1, _EXAMPLES).astype(np.int64))
    return tuple(
        _growth(column, samplers[name], examples) if name in samplers else 1.0
        for name, column in cache.sequence_columns.items()
    )


def _growth(column, sampler, examples):
    _, usual = column.spans(examples)
    sampled = sampler(tf.constant(column.texts(examples)), seed=0).row_lengths().numpy()
    return max(1.0, float(np.quantile(sampled / np.maximum(usual, 1), _FITTING)))
