"""How a corpus uses its vocabularies, for the data report."""

import re

import numpy as np

from keras_transformer.text.special_ids import FIRST_PIECE_ID, UNKNOWN_ID

RAREST_LISTED = 10

# So often a piece should occur to be learned well. Gowda and May 2020, "Finding the optimal
# vocabulary size for neural machine translation", want that of 95 % of the pieces.
LEARNABLE_COUNT = 100

_READ_AT_ONCE = 2**20
_RANKS = 100
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


def describe_vocabularies(cache, tokenizers, asked_size=None, validation_cache=None):
    """Returns how the vocabularies are used, in JSON's types: a list with one or two of them.

    Args:
        cache: the `TokenCache` of the training corpus.
        tokenizers: a mapping from each column of text to its `Tokenizer`. Columns with the same
            one are described together.
        asked_size: the number of ids that was asked for, if the vocabulary was learned.
        validation_cache: the `TokenCache` of the validation corpus, if there is one.
    """
    columns_of = {}
    for column, tokenizer in tokenizers.items():
        columns_of.setdefault(tokenizer.hash, []).append(column)
    return [
        _describe(tokenizers[columns[0]], columns, cache, asked_size, validation_cache)
        for columns in columns_of.values()
    ]


def _describe(tokenizer, columns, cache, asked_size, validation_cache):
    counts = _count_ids(cache, columns)
    names = tokenizer.vocabulary()
    can_fall_back = tokenizer.registered_name == "sentencepiece"
    is_fallback = np.array(
        [can_fall_back and _BYTE_PIECE.fullmatch(name) is not None for name in names]
    )
    is_piece = ~is_fallback
    is_piece[:FIRST_PIECE_ID] = False
    pieces, used = int(is_piece.sum()), int((counts[is_piece] > 0).sum())
    used_pieces = np.flatnonzero(is_piece & (counts > 0))
    rarest = used_pieces[np.argsort(counts[used_pieces], kind="stable")][:RAREST_LISTED]
    tokens = int(counts.sum())
    unseen_share = None
    if validation_cache is not None:
        validation_counts = _count_ids(validation_cache, columns)
        unseen_share = _share(validation_counts[counts == 0].sum(), validation_counts.sum())
    return {
        "columns": columns,
        "kind": tokenizer.registered_name,
        "asked_size": asked_size,
        "size": tokenizer.vocabulary_size,
        "pieces": pieces,
        "used_pieces": used,
        "used_share": _share(used, pieces),
        "learnable_share": _share((counts[is_piece] >= LEARNABLE_COUNT).sum(), pieces),
        "tokens": tokens,
        "unknown_share": _share(counts[UNKNOWN_ID], tokens),
        "byte_fallback_share": _share(counts[is_fallback].sum(), tokens) if can_fall_back else None,
        "validation_tokens_unseen_share": unseen_share,
        "rarest_pieces": [{"piece": names[n], "count": int(counts[n])} for n in rarest],
        "rank_frequency": _rank_frequency(counts[is_piece]),
    }


def _count_ids(cache, columns):
    """Returns how often each id occurs in some columns, read in parts: memory does not grow."""
    size = cache.columns[columns[0]].vocabulary_size
    counts = np.zeros(size, np.int64)
    for column in (cache.columns[name] for name in columns):
        for begin in range(0, column.tokens, _READ_AT_ONCE):
            count = min(_READ_AT_ONCE, column.tokens - begin)
            ids = column.gather(np.array([begin]), np.array([count]))
            counts += np.bincount(ids, minlength=size)
    return counts


def _rank_frequency(counts):
    """Returns some ranks, evenly spread on a logarithmic scale, and the counts of their pieces."""
    counts = np.sort(counts[counts > 0])[::-1]
    if not len(counts):  # all of the text is unknown, or spelt in bytes
        return {"ranks": [], "counts": []}
    ranks = np.unique(np.geomspace(1, len(counts), _RANKS).round().astype(int))
    return {"ranks": ranks.tolist(), "counts": counts[ranks - 1].tolist()}


def _share(part, whole):
    return float(part / whole) if whole else 0.0
