"""What a translation loses with each word of its source."""

import numpy as np

from keras_transformer.text import PADDING_ID


def erasure(pair):
    """How much less likely each target token is without each source token, `[T, S]` in nats.

    Li et al. 2016, "Understanding Neural Networks through Representation Erasure"; Jain & Wallace
    2019 call it leave-one-out. A token is erased by padding in its place, which nothing attends to
    and which leaves the positions of the others as they are. Above 0 the source token speaks for
    the target token, as with `gradient_times_input`, which estimates what is measured here.

    Args:
        pair: a `SentencePair`.
    """
    length = len(pair.source)
    sources = np.tile(pair.source, (length, 1))
    np.fill_diagonal(sources, PADDING_ID)
    whole = pair.chosen(pair.log_probabilities(pair.source[None]))  # [1, T]
    without = [pair.chosen(pair.log_probabilities(sources[part])) for part in pair.portions(length)]
    return (whole - np.concatenate(without)).T
