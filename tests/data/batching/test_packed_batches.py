"""Packed batches, and the packing of lengths into rows."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import PackedBatches
from keras_transformer.data.batching.packed_batches import pack


def segments_of(batches, epoch=0):
    """Returns all segments of an epoch, as (target, labels)."""
    found = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(epoch, number)
        for target, segments, label in zip(
            inputs["target"], inputs["segments"], labels, strict=True
        ):
            used = np.count_nonzero(segments)
            # Padding comes last, and segments are numbered from 1 without a gap.
            assert not segments[used:].any()
            assert set(np.diff(segments[:used], prepend=0)) <= {0, 1}
            np.testing.assert_array_equal(segments > 0, label > 0)
            np.testing.assert_array_equal(segments > 0, target > 0)
            for segment in range(1, segments.max(initial=0) + 1):
                found.append((target[segments == segment], label[segments == segment]))
    return found


def test_every_document_is_one_segment_per_epoch(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, row_length=300, tokens=1200, seed=1)
    for epoch in (0, 1):
        found = []
        for target, labels in segments_of(batches, epoch):
            assert target[0] == 2
            assert labels[-1] == 3
            assert target[1:].tolist() == labels[:-1].tolist()
            found.append(bytes(labels[:-1].astype(np.uint8) - 4).decode())
        assert collections.Counter(found) == collections.Counter(text for (text,) in documents)


def test_documents_share_rows_with_little_padding(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, row_length=300, tokens=300, seed=1)
    tokens = sum(len(text) + 1 for (text,) in documents)
    assert len(batches) == -(-tokens // 300)  # no packing needs fewer rows
    assert batches.batch(0, 0)[0]["segments"].max() > 3


def test_long_documents_are_cut_without_loss(make_cache):
    generator = np.random.default_rng(3)
    documents = [
        (bytes(generator.integers(97, 123, length).astype(np.uint8)).decode(),)
        for length in [1, 5, 14, 15, 16, 17, 31, 32, 33, 100]
    ]
    batches = PackedBatches(
        make_cache(documents, columns=("text",)), row_length=16, tokens=64, seed=1
    )
    labels_found = collections.Counter()
    ends = 0
    for target, labels in segments_of(batches):
        # A piece starts with START, because nothing before it is visible.
        assert target[0] == 2
        assert target[1:].tolist() == labels[:-1].tolist()
        labels_found[bytes(labels.astype(np.uint8))] += 1
        ends += labels[-1] == 3
    wanted = collections.Counter()
    for (text,) in documents:
        tokens = bytes(byte + 4 for byte in text.encode()) + b"\3"
        wanted.update(tokens[first : first + 16] for first in range(0, len(tokens), 16))
    assert labels_found == wanted
    assert ends == len(documents)
    report = batches.report()
    assert report.examples == 10
    assert report.tokens == sum(len(text) + 1 for (text,) in documents)


def test_neighbors_differ_between_epochs(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, row_length=64, tokens=640, seed=1)

    def neighbors(epoch):
        found = set()
        for number in range(len(batches)):
            pieces, sizes = batches.plan(epoch)[number]
            for row in np.split(pieces, np.cumsum(sizes)[:-1]):
                found.update((a, b) for a in row for b in row if a < b)
        return found

    first, second = neighbors(0), neighbors(1)
    assert len(first & second) < 0.2 * len(first)


def test_single_short_document_is_one_batch(make_cache):
    cache = make_cache([("word",)], columns=("text",))
    batches = PackedBatches(cache, seed=1)
    inputs, labels = batches.batch(0, 0)
    assert len(batches) == 1
    assert labels.shape == (1, 512)
    assert inputs["segments"][0, :6].tolist() == [1, 1, 1, 1, 1, 0]


def test_row_longer_than_batch_is_refused(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    with pytest.raises(UserError, match=r"100 tokens .*row_length=512") as caught:
        PackedBatches(cache, tokens=100, seed=1)
    assert caught.value.argument == "tokens"
    with pytest.raises(UserError, match=r"`row_length` must be .*got 1"):
        PackedBatches(cache, row_length=1, seed=1)


# Packing.


@given(st.integers(1, 40).flatmap(lambda w: st.lists(st.integers(0, 30), min_size=w, max_size=w)))
def test_pack_places_every_piece_within_row_length(counts):
    row_length = len(counts)
    patterns = pack([0, *counts], row_length)
    found = np.zeros(row_length + 1, int)
    for lengths, rows in patterns:
        assert rows > 0
        assert 0 < sum(lengths) <= row_length
        for length in lengths:
            found[length] += rows
    assert found.tolist() == [0, *counts]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60))
def test_pack_needs_as_few_rows_as_best_fit_decreasing(lengths):
    """The reference places the longest pieces first, each where the least space is free."""
    spaces = []
    for length in sorted(lengths, reverse=True):
        fitting = [index for index, space in enumerate(spaces) if space >= length]
        if fitting:
            spaces[min(fitting, key=spaces.__getitem__)] -= length
        else:
            spaces.append(12 - length)
    patterns = pack(np.bincount(lengths, minlength=13), 12)
    assert sum(rows for _, rows in patterns) == len(spaces)


def test_pack_of_short_documents_has_little_padding():
    lengths = np.clip(np.random.default_rng(1).lognormal(4, 0.8, 100_000), 2, 512).astype(int)
    patterns = pack(np.bincount(lengths, minlength=513), 512)
    assert lengths.sum() / (512 * sum(rows for _, rows in patterns)) > 0.99
