"""Limits for toy searches."""

from keras_transformer.decoding import LengthLimits


def at_most(maximum, minimum=1):
    """So many tokens, whatever the source."""
    return LengthLimits(maximum=maximum, minimum=minimum, maximum_ratio=None)
