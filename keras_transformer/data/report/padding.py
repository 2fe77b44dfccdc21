"""How much of the batches of a corpus is padding, and how fast they come, for the data report."""

import itertools
import time

import numpy as np

from keras_transformer.data.batching.bucket_choice import DEFAULT_BUCKETS, choose_buckets
from keras_transformer.data.batching.document_batches import DocumentBatches
from keras_transformer.data.batching.labelled_batches import LabelledBatches
from keras_transformer.data.batching.packed_batches import PackedBatches
from keras_transformer.data.batching.pair_batches import PairBatches

# One shape for all, and what people choose; the default is among them.
BUCKET_SETTINGS = tuple(sorted({1, 4, 8, 12, DEFAULT_BUCKETS, 32}))

_BATCHES_OF = {kind.columns: kind for kind in (PairBatches, DocumentBatches, LabelledBatches)}
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
        settings.append({"max_buckets": max_buckets, **_summary(report)})
        if max_buckets == DEFAULT_BUCKETS:
            default, default_report = batches, report
    if isinstance(default, DocumentBatches):
        packed = PackedBatches(cache, width=min(_PACKED_WIDTH, tokens), tokens=tokens, seed=0)
        settings.append({"packed_width": packed.width, **_summary(packed.report())})
    return {
        "settings": settings,
        "default": _describe(default_report),
        "iterating": _time_iterating(default),
    }


def _summary(report):
    return {
        "shapes": len(report.buckets),
        "batches": report.batches,
        "efficiency": report.efficiency,
    }


def _describe(report):
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
