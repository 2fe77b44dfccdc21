import collections

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import PackedBatches


def segments_of(batches, epoch=0):
    """All segments of an epoch, as (target, labels)."""
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


def test_every_document_is_a_segment_once_an_epoch(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, width=300, tokens=1200, seed=1)
    for epoch in (0, 1):
        found = []
        for target, labels in segments_of(batches, epoch):
            assert target[0] == 2
            assert labels[-1] == 3
            assert target[1:].tolist() == labels[:-1].tolist()
            found.append(bytes(labels[:-1].astype(np.uint8) - 4).decode())
        assert collections.Counter(found) == collections.Counter(text for (text,) in documents)


def test_several_documents_share_a_row_with_little_padding(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, width=300, tokens=300, seed=1)
    tokens = sum(len(text) + 1 for (text,) in documents)
    assert len(batches) == -(-tokens // 300)  # no packing needs fewer rows
    assert batches.batch(0, 0)[0]["segments"].max() > 3


def test_long_documents_are_cut_and_nothing_is_lost(make_cache):
    generator = np.random.default_rng(3)
    documents = [
        (bytes(generator.integers(97, 123, length).astype(np.uint8)).decode(),)
        for length in [1, 5, 14, 15, 16, 17, 31, 32, 33, 100]
    ]
    batches = PackedBatches(make_cache(documents, columns=("text",)), width=16, tokens=64, seed=1)
    labels_found = collections.Counter()
    ends = 0
    for target, labels in segments_of(batches):
        # A piece starts with START, as nothing before it can be seen.
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


def test_neighbors_change_from_epoch_to_epoch(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    batches = PackedBatches(cache, width=64, tokens=640, seed=1)

    def neighbors(epoch):
        found = set()
        for number in range(len(batches)):
            pieces, sizes = batches.plan(epoch)[number]
            for row in np.split(pieces, np.cumsum(sizes)[:-1]):
                found.update((a, b) for a in row for b in row if a < b)
        return found

    first, second = neighbors(0), neighbors(1)
    assert len(first & second) < 0.2 * len(first)


def test_one_short_document_is_one_step(make_cache):
    cache = make_cache([("word",)], columns=("text",))
    batches = PackedBatches(cache, seed=1)
    inputs, labels = batches.batch(0, 0)
    assert len(batches) == 1
    assert labels.shape == (1, 512)
    assert inputs["segments"][0, :6].tolist() == [1, 1, 1, 1, 1, 0]


def test_says_what_to_do_if_a_row_is_more_than_the_budget(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    with pytest.raises(
        UserError, match=r"tokens=100 cannot hold a row of width=512\. Set tokens to"
    ):
        PackedBatches(cache, tokens=100, seed=1)
    with pytest.raises(ValueError, match="`width` must be a whole number of at least 2; got 1"):
        PackedBatches(cache, width=1, seed=1)
