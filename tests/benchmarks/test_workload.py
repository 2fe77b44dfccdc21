"""Batches, test sentences and texts of the workload."""

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from tests.benchmarks.small_workload import SOURCES, TARGETS, write_workload
from training.benchmarks.workload import BUCKETS, Workload, count_tokens, require_data, spell


@pytest.fixture
def workload(tmp_path):
    return Workload(write_workload(tmp_path))


def row(length, *ids):
    return [*ids, *[0] * (length - len(ids))]


def test_training_batches_are_padded_to_buckets(workload):
    expected = [
        (
            [row(12, 5, 6, 3), row(12, 7, 3)],
            [row(12, 2, 20), row(12, 2, 21, 22, 23)],
            [row(12, 20, 3), row(12, 21, 22, 23, 3)],
        ),
        (
            [row(12, 8, 9, 10, 3), row(12, 12, 13, 3)],
            [row(12, 2, 24), row(12, 2, 27, 27, 27)],
            [row(12, 24, 3), row(12, 27, 27, 27, 3)],
        ),
        ([row(16, *[11] * 12, 3)], [row(16, 2, 25, 26)], [row(16, 25, 26, 3)]),
    ]
    batches = workload.training_batches(tokens=24)
    assert [tuple(array.tolist() for array in batch) for batch in batches] == expected
    assert {array.dtype for batch in batches for array in batch} == {np.dtype(np.int32)}
    assert count_tokens(batches) == (5 + 7 + 13, 6 + 6 + 3)


def test_timing_batches_have_the_shapes_of_an_epoch(workload):
    warm, timed = workload.timing_batches(2, tokens=24)
    assert [batch[0].shape for batch in warm] == [(2, 12), (1, 16)]
    assert [batch[0].shape for batch in timed] == [(2, 12), (1, 16)]


def test_test_batches_are_sorted_by_length(workload):
    as_lists = [[ids.tolist() for ids in rows] for rows in workload.test_batches(2)]
    longest = [*[11] * 12, 3]
    assert as_lists == [[[7, 3], [5, 6, 3]], [[12, 13, 3], [8, 9, 10, 3]], [longest]]
    (limited,) = workload.test_batches(2, limit=2)
    assert [ids.tolist() for ids in limited] == [[7, 3], [12, 13, 3]]


def test_texts_are_those_of_the_directory_or_words_for_ids(workload):
    assert workload.test_texts(5)[0][0] == spell(SOURCES[1])
    assert workload.texts()[0][:2] == [spell(SOURCES[0]), spell(TARGETS[0])]
    for name in ("train.en", "train.de", "test.en"):
        (workload.directory / name).write_text("a\nb\nc\nd\ne\n")
    assert workload.test_texts(2) == [["b", "a"], ["e", "c"], ["d"]]
    (workload.directory / "test.en").write_text("a\n")
    with pytest.raises(UserError, match=r"test\.en has 1 lines.*test\.npz has 5"):
        workload.test_texts(2)


def test_random_sentences_repeat_and_are_as_long_as_multi30k():
    pairs = Workload().pairs("train")
    assert len(pairs) == 29_000
    again = Workload().pairs("train")
    assert all(np.array_equal(pairs[i][1], again[i][1]) for i in (0, 28_999))
    needed = [max(map(len, pair)) + 1 for pair in pairs]
    shares = np.histogram(needed, [0, *(width + 1 for width in BUCKETS), 1000])[0] / len(pairs)
    # Those of Multi30k, counted with a joint BPE vocabulary of 8,000.
    expected = [0.231, 0.340, 0.234, 0.114, 0.068, 0.011, 0.000]
    np.testing.assert_allclose(shares, expected, atol=0.012)
    assert len(Workload().pairs("test")) == 1000


def test_directory_without_usable_data_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"train\.npz is missing"):
        require_data(tmp_path)
    with pytest.raises(UserError, match=r"train\.npz: no such file"):
        Workload(tmp_path).pairs("train")
    (tmp_path / "train.npz").write_bytes(b"no zip file")
    with pytest.raises(UserError, match=r"train\.npz: .*src, src_len, tgt and tgt_len"):
        Workload(tmp_path).pairs("train")
    with pytest.raises(UserError, match="batch of 4096 tokens"):
        Workload(write_workload(tmp_path)).timing_batches(2)
