"""How much of one corpus is in another."""

import numpy as np

from keras_transformer.data.corpora.digests import contains, digest_array, example_digest

_BLOCK = 1 << 16


def count_overlap(training, validation):
    """Returns how many examples of `validation` are, word for word, in `training` too.

    A model is not measured by examples that it was trained on. Both corpora are streamed; 8 bytes
    are held for each example of `validation`.

    Args:
        training: A corpus.
        validation: A corpus with the same columns.

    Example:

    >>> from keras_transformer.data import MemoryCorpus
    >>> training = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> count_overlap(training, MemoryCorpus([("nein", "no"), ("nein", "nope")]))
    1
    """
    if training.columns != validation.columns:
        raise ValueError(
            "`training` and `validation` must have the same columns; "
            f"got {training.columns} and {validation.columns}."
        )
    blocks = [np.zeros(0, dtype="<u8"), *_digest_blocks(validation)]
    digests, counts = np.unique(np.concatenate(blocks), return_counts=True)
    is_found = np.zeros(len(digests), dtype=bool)
    for block in _digest_blocks(training):
        is_inside, places = contains(digests, block)
        is_found[places[is_inside]] = True
    return int(counts[is_found].sum())


def _digest_blocks(corpus):
    pending = bytearray()
    for number, example in enumerate(corpus, start=1):
        pending += example_digest(example)
        if number % _BLOCK == 0:
            yield digest_array(pending)
            pending.clear()
    yield digest_array(pending)
