"""Statistics of the data report: lengths, use of the vocabulary, and padding of the batches."""

import dataclasses
import itertools
import pathlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_transformer._utils.errors import UserError
from keras_transformer.data.batching.batches import Batches, BatchReport, BucketReport
from keras_transformer.data.batching.bucketed_batches import (
    DocumentBatches,
    LabeledBatches,
    PairBatches,
)
from keras_transformer.data.batching.buckets import DEFAULT_BUCKETS, choose_buckets
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.corpora.corpus import Corpus
from keras_transformer.data.corpora.corpus_report import LengthSummary
from keras_transformer.data.token_cache import TokenCache
from keras_transformer.data.tokenization import LabelIndex
from keras_transformer.text import ByteTokenizer, Tokenizer, TokenizerPair, learn_tokenizer
from keras_transformer.text.registry import registered_tokenizers
from keras_transformer.text.tokenizer import load_tokenizer

# Enough for a picture; the printed report merges some of them.
BINS = 48

# The regular bins cover the lengths that this share of the examples does not exceed; one more bin
# holds the rest. Otherwise a single long line would put all others into one bin.
_SHARE_IN_BINS = 0.999


def describe_lengths(cache: TokenCache) -> dict[str, Any]:
    """Returns the lengths in tokens, without the start and end tokens, in JSON's types.

    Bin n of `histogram` has the lengths above n × `bin_width` up to (n + 1) × `bin_width`; the last
    bin has all longer ones. `joint_histogram` has, for pairs, the counts for each bin of the source
    (rows) and of the target (columns), otherwise None.
    """
    names, columns = list(cache.sequence_columns), cache.sequence_columns.values()
    by_length = [np.zeros(column.longest + 1, np.int64) for column in columns]
    for lengths in cache.iterate_lengths():
        for counts, column_lengths in zip(by_length, lengths.T, strict=True):
            counts += np.bincount(column_lengths, minlength=len(counts))
    reached = [np.searchsorted(c.cumsum(), _SHARE_IN_BINS * c.sum()) for c in by_length]
    width = -(-int(max(1, *reached)) // BINS)
    bins = -(-int(max(1, *reached)) // width)
    joint = np.zeros((bins + 1,) * len(names), np.int64)
    for lengths in cache.iterate_lengths():
        indices = tuple(np.clip((lengths - 1) // width, 0, bins).T)
        flat = np.ravel_multi_index(indices, joint.shape)
        joint += np.bincount(flat, minlength=joint.size).reshape(joint.shape)
    by_column = [joint] if joint.ndim == 1 else [joint.sum(axis=1), joint.sum(axis=0)]
    return {
        "columns": dict(zip(names, map(_length_summary, by_length), strict=True)),
        "histogram": {
            "bin_width": width,
            "counts": {name: c.tolist() for name, c in zip(names, by_column, strict=True)},
        },
        "joint_histogram": joint.tolist() if joint.ndim == 2 else None,
    }


def _length_summary(counts: np.ndarray) -> dict[str, Any]:
    lengths = np.flatnonzero(counts)
    by_length = dict(zip(lengths.tolist(), counts[lengths].tolist(), strict=True))
    return dataclasses.asdict(LengthSummary.of(by_length))


RAREST_LISTED = 10

# Number of occurrences that a piece needs to be learned well. Gowda and May 2020, "Finding the
# optimal vocabulary size for neural machine translation", recommend it for 95 % of the pieces.
LEARNABLE_COUNT = 100

_READ_AT_ONCE = 2**20
_RANKS = 100
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


def describe_vocabularies(
    cache: TokenCache,
    tokenizers: Mapping[str, Any],
    requested_size: int | None = None,
    validation_cache: TokenCache | None = None,
) -> list[dict[str, Any]]:
    """Returns statistics of each vocabulary, in JSON's types.

    Args:
        cache: The training corpus.
        tokenizers: The tokenizer of each column. Columns may share a tokenizer.
        requested_size: Requested number of ids, if the vocabulary was learned.
        validation_cache: The validation corpus, if there is one.
    """
    columns_of: dict[str, list[str]] = {}
    for column in cache.sequence_columns:
        columns_of.setdefault(tokenizers[column].hash, []).append(column)
    return [
        {
            "columns": columns,
            "requested_size": requested_size,
            **_describe_vocabulary(tokenizers[columns[0]], columns, cache, validation_cache),
        }
        for columns in columns_of.values()
    ]


def _describe_vocabulary(
    tokenizer: Tokenizer, columns: list[str], cache: TokenCache, validation_cache: TokenCache | None
) -> dict[str, Any]:
    counts = _count_ids(cache, columns)
    names = tokenizer.vocabulary()
    has_fallback = tokenizer.registered_name == "sentencepiece"
    is_fallback = np.array([has_fallback and bool(_BYTE_PIECE.fullmatch(name)) for name in names])
    is_piece = ~is_fallback
    is_piece[list(cache.special_ids.ids)] = False
    used_pieces = np.flatnonzero(is_piece & (counts > 0))
    rarest = used_pieces[np.argsort(counts[used_pieces], kind="stable")][:RAREST_LISTED]
    pieces, used, tokens = int(is_piece.sum()), len(used_pieces), int(counts.sum())
    unseen_share = None
    if validation_cache is not None:
        validation_counts = _count_ids(validation_cache, columns)
        unseen_share = _share(validation_counts[counts == 0].sum(), validation_counts.sum())
    return {
        "kind": tokenizer.registered_name,
        "size": tokenizer.vocabulary_size,
        "pieces": pieces,
        "used_pieces": used,
        "used_share": _share(used, pieces),
        "learnable_share": _share((counts[is_piece] >= LEARNABLE_COUNT).sum(), pieces),
        "tokens": tokens,
        "unknown_share": _share(counts[cache.special_ids.unknown], tokens),
        "byte_fallback_share": _share(counts[is_fallback].sum(), tokens) if has_fallback else None,
        "validation_tokens_unseen_share": unseen_share,
        "rarest_pieces": [{"piece": names[n], "count": int(counts[n])} for n in rarest],
        "rank_frequency": _rank_frequency(counts[is_piece]),
    }


def _count_ids(cache: TokenCache, columns: Sequence[str]) -> np.ndarray:
    """Returns the number of occurrences of each id in some columns, with bounded memory."""
    size = cache.columns[columns[0]].vocabulary_size
    counts = np.zeros(size, np.int64)
    for column in (cache.columns[name] for name in columns):
        for begin in range(0, column.tokens, _READ_AT_ONCE):
            count = min(_READ_AT_ONCE, column.tokens - begin)
            ids = column.gather(np.array([begin]), np.array([count]))
            counts += np.bincount(ids, minlength=size)
    return counts


def _rank_frequency(counts: np.ndarray) -> dict[str, list[int]]:
    """Returns some ranks, evenly spread on a logarithmic scale, and the counts of their pieces."""
    counts = np.sort(counts[counts > 0])[::-1]
    if not len(counts):  # all of the text is unknown, or spelled in bytes
        return {"ranks": [], "counts": []}
    ranks = np.unique(np.geomspace(1, len(counts), _RANKS).round().astype(int))
    return {"ranks": ranks.tolist(), "counts": counts[ranks - 1].tolist()}


def _share(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else 0.0


DEFAULT_VOCABULARY_SIZE = 8000


def find_tokenizers(
    corpus: Corpus, tokenizer: str | pathlib.Path, vocabulary_size: int | None = None
) -> tuple[dict[str, Any], int | None, list[str]]:
    """Returns the tokenizer of each column, the requested vocabulary size, and warnings.

    Args:
        corpus: The corpus to learn from; source and target share a learned vocabulary.
        tokenizer: Name of a kind to learn, or directory of a saved tokenizer or `TokenizerPair`.
        vocabulary_size: Number of ids to learn. Default 8,000.
    """
    requested_size, messages = None, []
    if tokenizer in registered_tokenizers() and tokenizer != ByteTokenizer.registered_name:
        requested_size = vocabulary_size or DEFAULT_VOCABULARY_SIZE
        learned, messages = _learn(corpus, str(tokenizer), requested_size)
        pair = TokenizerPair(learned)
    elif vocabulary_size is not None:
        raise UserError(
            f"`vocabulary_size` is for a vocabulary that is learned; {tokenizer} has a fixed size.",
            fix="Leave out one of the two.",
        )
    else:
        pair = _load(tokenizer)
    tokenizers: dict[str, Any] = dict.fromkeys(corpus.columns, pair.source)
    if "target" in tokenizers:
        tokenizers["target"] = pair.target
    if "label" in tokenizers:
        tokenizers["label"] = LabelIndex(getattr(corpus, "labels"))  # noqa: B009
    return tokenizers, requested_size, messages


def _learn(corpus: Corpus, name: str, vocabulary_size: int) -> tuple[Tokenizer, list[str]]:
    texts = len(corpus.columns) - ("label" in corpus.columns)  # a label is the last column
    lines = itertools.chain.from_iterable(example[:texts] for example in corpus)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokenizer = learn_tokenizer(name, lines, vocabulary_size)
    # Libraries warn developers in categories of their own, such as DeprecationWarning.
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    return tokenizer, messages


def _load(tokenizer: str | pathlib.Path) -> TokenizerPair:
    if tokenizer == ByteTokenizer.registered_name:
        return TokenizerPair(ByteTokenizer())
    directory = pathlib.Path(tokenizer)
    if not directory.is_dir():
        kinds = ", ".join(registered_tokenizers())
        problem = f"neither a kind of tokenizer ({kinds}) nor the directory of a saved tokenizer."
        raise UserError(problem, where=tokenizer, fix="Check the spelling.")
    if (directory / "tokenizer.json").exists():
        return TokenizerPair(load_tokenizer(directory))
    return TokenizerPair.load(directory)


# A single shape, and usual numbers; the default is among them.
BUCKET_SETTINGS = tuple(sorted({1, 4, 8, 12, DEFAULT_BUCKETS, 32}))

_BATCHES_OF = {kind.columns: kind for kind in (PairBatches, DocumentBatches, LabeledBatches)}
_PACKED_LENGTH = 512
_TIMED_BATCHES = 200


def describe_padding(cache: TokenCache, tokens: int, max_length: int) -> dict[str, Any]:
    """Returns the padding for several numbers of buckets, and details of the default number.

    Documents that are too long are truncated, other examples are skipped. `choose_buckets`
    describes the arguments. For documents, `settings` also has an entry for packing; `iterating` is
    the speed of the dataset with the default number.
    """
    kind = _BATCHES_OF[tuple(cache.columns)]
    limits = {"tokens": tokens, "max_length": max_length}
    too_long = "truncate" if kind is DocumentBatches else "skip"
    by_setting: dict[int, Batches] = {}
    for number in BUCKET_SETTINGS:
        table = choose_buckets(cache, **limits, too_long=too_long, max_buckets=number)
        by_setting[number] = kind(cache, table, seed=0)
    reports = [({"max_buckets": number}, each.report()) for number, each in by_setting.items()]
    default = by_setting[DEFAULT_BUCKETS].report()
    if kind is DocumentBatches:
        packed = PackedBatches(cache, row_length=min(_PACKED_LENGTH, tokens), tokens=tokens, seed=0)
        reports.append(({"row_length": packed.row_length}, packed.report()))
    return {
        "settings": [
            {**name, "shapes": len(each.buckets), **_numbers(each, "batches", "efficiency")}
            for name, each in reports
        ],
        "default": {
            "max_buckets": DEFAULT_BUCKETS,
            **_numbers(default, "batches", "examples", "efficiency", "skipped", "truncated"),
            "buckets": [
                {
                    "rows": part.bucket.rows,
                    "lengths": list(part.bucket.lengths),
                    **_numbers(part, "batches", "examples", "efficiency"),
                }
                for part in default.buckets
            ],
        },
        "iterating": _time_iterating(by_setting[DEFAULT_BUCKETS]),
    }


def _numbers(report: BatchReport | BucketReport, *names: str) -> dict[str, Any]:
    return {name: getattr(report, name) for name in names}


def _time_iterating(batches: Batches) -> dict[str, float]:
    """Returns the numbers of batches, sentences and target (or text) tokens per second."""
    columns, padding = len(batches.cache.sequence_columns), batches.special_ids.padding
    iterator: Iterator[Any] = iter(batches.dataset())
    next(iterator)  # starts the pipeline
    sentences, tokens, begin = 0, 0, time.perf_counter()
    for inputs, *_ in itertools.islice(iterator, _TIMED_BATCHES):
        ids = (inputs["target"] if "target" in inputs else inputs["source"]).numpy()
        is_token = ids != padding
        # A row that only fills the batch has no token at all.
        sentences += int(np.count_nonzero(is_token.any(axis=1))) * columns
        tokens += int(np.count_nonzero(is_token))
    seconds = time.perf_counter() - begin
    return {
        "timed_batches": _TIMED_BATCHES,
        "batches_per_second": _TIMED_BATCHES / seconds,
        "sentences_per_second": sentences / seconds,
        "tokens_per_second": tokens / seconds,
    }
