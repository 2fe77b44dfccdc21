"""How much of the batches of a corpus is padding, and how fast they come, for the data report."""

import dataclasses
import itertools
import pathlib
import re
import time
import warnings

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.buckets import DEFAULT_BUCKETS, choose_buckets
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.batching.task_batches import (
    DocumentBatches,
    LabeledBatches,
    PairBatches,
)
from keras_transformer.data.corpora.corpus_report import LengthSummary
from keras_transformer.data.token_cache import LabelIndex
from keras_transformer.text import (
    ByteTokenizer,
    TokenizerPair,
    learn_tokenizer,
    load_tokenizer,
    registered_tokenizers,
)
from keras_transformer.text.tokenizer import FIRST_PIECE_ID, UNKNOWN_ID

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
        "columns": {
            name: _length_summary(counts) for name, counts in zip(names, by_length, strict=True)
        },
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


def _length_summary(counts):
    lengths = np.flatnonzero(counts)
    by_length = dict(zip(lengths.tolist(), counts[lengths].tolist(), strict=True))
    return dataclasses.asdict(LengthSummary.of(by_length))


def _other_axes_summed(joint, axis):
    return joint.sum(axis=tuple(other for other in range(joint.ndim) if other != axis))


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
        _vocabulary_description(
            tokenizers[columns[0]], columns, cache, asked_size, validation_cache
        )
        for columns in columns_of.values()
    ]


def _vocabulary_description(tokenizer, columns, cache, asked_size, validation_cache):
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


DEFAULT_VOCABULARY_SIZE = 8000


def find_tokenizers(corpus, tokenizer, vocabulary_size=None):
    """Returns the tokenizer of each column, the size that was asked for, and warnings.

    Args:
        corpus: the `Corpus` to learn from; source and target share what is learned.
        tokenizer: the registered name of a kind to learn, or the directory of a saved tokenizer
            or `TokenizerPair`.
        vocabulary_size: the number of ids to learn, 8,000 by default.
    """
    if tokenizer in registered_tokenizers() and tokenizer != ByteTokenizer.registered_name:
        asked_size = vocabulary_size or DEFAULT_VOCABULARY_SIZE
        learned, messages = _learn(corpus, tokenizer, asked_size)
        pair = TokenizerPair(learned)
    else:
        if vocabulary_size is not None:
            raise UserError(
                f"`vocabulary_size` is for a vocabulary that is learned; {tokenizer} has a size "
                "of its own. Leave one of the two out."
            )
        pair, asked_size, messages = _load(tokenizer), None, []
    tokenizers = dict.fromkeys(corpus.columns, pair.source)
    if "target" in tokenizers:
        tokenizers["target"] = pair.target
    if "label" in tokenizers:
        tokenizers["label"] = LabelIndex(corpus.labels)
    return tokenizers, asked_size, messages


def _learn(corpus, name, vocabulary_size):
    columns = [place for place, column in enumerate(corpus.columns) if column != "label"]
    lines = itertools.chain.from_iterable(
        (example[place] for place in columns) for example in corpus
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = learn_tokenizer(name, lines, vocabulary_size)
    return tokenizer, [str(warning.message) for warning in caught if _is_for_users(warning)]


def _is_for_users(warning):
    # What libraries say to programrs has a category of its own, such as DeprecationWarning.
    return warning.category is UserWarning


def _load(tokenizer):
    if tokenizer == ByteTokenizer.registered_name:
        return TokenizerPair(ByteTokenizer())
    directory = pathlib.Path(tokenizer)
    if not directory.is_dir():
        kinds = ", ".join(registered_tokenizers())
        raise UserError(
            f"{tokenizer}: neither a kind of tokenizer ({kinds}) nor a directory of a saved one. "
            "Check the spelling."
        )
    if (directory / "tokenizer.json").exists():
        return TokenizerPair(load_tokenizer(directory))
    return TokenizerPair.load(directory)


# One shape for all, and what people choose; the default is among them.
BUCKET_SETTINGS = tuple(sorted({1, 4, 8, 12, DEFAULT_BUCKETS, 32}))

_BATCHES_OF = {kind.columns: kind for kind in (PairBatches, DocumentBatches, LabeledBatches)}
_PACKED_WIDTH = 512
_TIMED_BATCHES = 200


def describe_padding(cache, tokens, max_length):
    """Returns the padding for several numbers of buckets, and more about the default one.

    Documents that are too long are truncated, other examples are skipped.

    Args:
        cache: the `TokenCache`.
        tokens: the budget of a batch, see `choose_buckets`.
        max_length: the longest sequence, see `choose_buckets`.

    Returns:
        A dictionary in JSON's types: `settings` is a list, one entry for each number of buckets,
        and for documents one for packing; `default` describes the batches of the default number;
        `iterating` tells how fast they come.
    """
    too_long = "truncate" if tuple(cache.columns) == DocumentBatches.columns else "skip"
    settings, default = [], None
    for max_buckets in BUCKET_SETTINGS:
        table = choose_buckets(
            cache, tokens=tokens, max_length=max_length, too_long=too_long, max_buckets=max_buckets
        )
        batches = _BATCHES_OF[tuple(cache.columns)](cache, table, seed=0)
        report = batches.report()
        settings.append({"max_buckets": max_buckets, **_padding_summary(report)})
        if max_buckets == DEFAULT_BUCKETS:
            default, default_report = batches, report
    if isinstance(default, DocumentBatches):
        packed = PackedBatches(cache, width=min(_PACKED_WIDTH, tokens), tokens=tokens, seed=0)
        settings.append({"packed_width": packed.width, **_padding_summary(packed.report())})
    return {
        "settings": settings,
        "default": _padding_description(default_report),
        "iterating": _time_iterating(default),
    }


def _padding_summary(report):
    return {
        "shapes": len(report.buckets),
        "batches": report.batches,
        "efficiency": report.efficiency,
    }


def _padding_description(report):
    return {
        "max_buckets": DEFAULT_BUCKETS,
        "batches": report.batches,
        "examples": report.examples,
        "efficiency": report.efficiency,
        "skipped": report.skipped,
        "truncated": report.truncated,
        "buckets": [
            {
                "rows": part.bucket.rows,
                "widths": list(part.bucket.widths),
                "batches": part.batches,
                "examples": part.examples,
                "efficiency": part.efficiency,
            }
            for part in report.buckets
        ],
    }


def _time_iterating(batches):
    """Returns how many batches, sentences and target (or text) tokens a dataset gives a second."""
    columns = len(batches.cache.sequence_columns)
    iterator = iter(batches.dataset())
    next(iterator)  # the pipeline has to start first
    sentences, tokens, begin = 0, 0, time.perf_counter()
    for inputs, *_ in itertools.islice(iterator, _TIMED_BATCHES):
        ids = (inputs["target"] if "target" in inputs else inputs["source"]).numpy()
        # A row that only fills up the batch begins with padding.
        sentences += int(np.count_nonzero(ids[:, 0])) * columns
        tokens += int(np.count_nonzero(ids))
    seconds = time.perf_counter() - begin
    return {
        "timed_batches": _TIMED_BATCHES,
        "batches_per_second": _TIMED_BATCHES / seconds,
        "sentences_per_second": sentences / seconds,
        "tokens_per_second": tokens / seconds,
    }
