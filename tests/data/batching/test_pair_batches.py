import collections

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    Bucket,
    BucketTable,
    MemoryCorpus,
    PairBatches,
    choose_buckets,
    tokenize_corpus,
)
from keras_transformer.text import ByteTokenizer, learn_tokenizer


def ids(text):
    return [byte + 4 for byte in text.encode()]


def rows_of(batches, epoch=0):
    """All rows of an epoch that are not padding, as (source, target, labels) without padding."""
    rows = []
    for number in range(len(batches)):
        inputs, labels = batches.batch(epoch, number)
        for arrays in zip(inputs["source"], inputs["target"], labels, strict=True):
            row = tuple(np.trim_zeros(array, "b").tolist() for array in arrays)
            if any(row):
                rows.append(row)
    return rows


def row_of(source, target):
    return [*ids(source), 3], [2, *ids(target)], [*ids(target), 3]


texts = st.text("abc", min_size=1, max_size=12)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=60),
    st.integers(13, 100),
    st.integers(1, 6),
)
def test_every_pair_occurs_once_an_epoch(make_cache, pairs, tokens, max_buckets):
    cache = make_cache(pairs)
    table = choose_buckets(cache, tokens=tokens, max_buckets=max_buckets)
    batches = PairBatches(cache, table, seed=3)
    for epoch in (0, 1):
        found = collections.Counter(map(str, rows_of(batches, epoch)))
        assert found == collections.Counter(str(row_of(*pair)) for pair in pairs)


def test_every_batch_has_the_shape_of_its_bucket(make_cache, pairs):
    cache = make_cache(pairs)
    table = choose_buckets(cache, tokens=600, max_buckets=6)
    batches = PairBatches(cache, table, seed=3)
    for number in range(len(batches)):
        index, examples = batches.plan(0)[number]
        inputs, labels = batches.batch(0, number)
        bucket = table[index]
        assert inputs["source"].shape == (bucket.rows, bucket.widths[0])
        assert inputs["target"].shape == labels.shape == (bucket.rows, bucket.widths[1])
        assert np.count_nonzero(labels.any(axis=1)) == len(examples)


def test_what_is_left_over_goes_up_where_that_saves_slots(make_cache):
    # Of each length one more than fills its batches.
    pairs = [("a" * n, "b" * n) for n in (3, 4, 5) for _ in range(17)]
    table = BucketTable(tuple(Bucket(8, (width, width)) for width in (4, 5, 6)))
    report = PairBatches(make_cache(pairs), table, seed=1).report()
    assert [part.batches for part in report.buckets] == [2, 2, 3]
    assert [part.examples for part in report.buckets] == [16, 16, 19]
    # To go up to a row of fifty would cost more than a batch that is not full.
    table = BucketTable((*table.buckets, Bucket(2, (50, 50))))
    assert [
        part.batches for part in PairBatches(make_cache(pairs), table, seed=1).report().buckets
    ] == [2, 2, 3, 0]
    pairs.append(("a" * 49, "b"))
    report = PairBatches(make_cache(pairs), table, seed=1).report()
    assert [part.batches for part in report.buckets] == [2, 2, 3, 1]


def test_the_whole_corpus_is_shuffled(make_cache):
    pairs = [(f"{number:04}", f"{number:04}") for number in range(2000)]
    cache = make_cache(pairs)
    batches = PairBatches(cache, choose_buckets(cache, tokens=100), seed=3)
    first = [examples for number in range(20) for examples in batches.plan(0)[number][1]]
    # The first 320 examples come from everywhere: 80 from each quarter, and 40 are five standard
    # deviations.
    assert len(first) == 320
    quarters = np.bincount(np.array(first) // 500, minlength=4)
    assert np.abs(quarters - 80).max() < 40


def test_too_long_pairs_are_skipped_and_counted(make_cache):
    pairs = [("a" * n, "b" * (n // 2 + 1)) for n in range(1, 41)] + [("x", "y" * 10**6)]
    cache = make_cache(pairs)
    batches = PairBatches(cache, choose_buckets(cache, tokens=100, max_length=31), seed=1)
    report = batches.report()
    assert (report.examples, report.skipped, report.truncated) == (30, 11, 0)
    assert sorted(rows_of(batches)) == sorted(row_of(*pair) for pair in pairs[:30])
    assert "30 examples" in str(report)
    assert "11 skipped" in str(report)


def test_too_long_pairs_are_cut_and_counted(make_cache):
    pairs = [("a" * 3, "b" * 3), ("a" * 4, "b" * 10**6), ("c" * 9, "d" * 4), ("c" * 5, "d" * 6)]
    cache = make_cache(pairs)
    table = choose_buckets(cache, max_length=6, too_long="truncate")
    report = PairBatches(cache, table, seed=1).report()
    assert (report.examples, report.skipped, report.truncated) == (4, 0, 3)
    assert sorted(rows_of(PairBatches(cache, table, seed=1))) == sorted(
        [
            ([*ids("aaa"), 3], [2, *ids("bbb")], [*ids("bbb"), 3]),
            # What is cut has no END.
            ([*ids("aaaa"), 3], [2, *ids("bbbbb")], ids("bbbbbb")),
            (ids("cccccc"), [2, *ids("dddd")], [*ids("dddd"), 3]),
            ([*ids("ccccc"), 3], [2, *ids("ddddd")], ids("dddddd")),
        ]
    )


def test_a_table_that_leaves_nothing_is_the_users_mistake(make_cache, pairs):
    table = BucketTable((Bucket(8, (2, 2)),))
    with pytest.raises(UserError, match=r"All 20 examples .* \(2, 2\)\. Use a wider one, or too_"):
        PairBatches(make_cache([("long", "longer")] * 20), table, seed=1)


def test_refuses_a_table_of_other_columns(make_cache, pairs):
    table = BucketTable((Bucket(8, (2,)),))
    with pytest.raises(ValueError, match=r"a width for each of \['source', 'target'\]; got \(2,\)"):
        PairBatches(make_cache(pairs), table, seed=1)


def test_one_pair_and_a_large_budget_are_one_step(make_cache):
    cache = make_cache([("eins", "one")])
    batches = PairBatches(cache, choose_buckets(cache, tokens=10**6), seed=1)
    assert len(batches) == 1
    assert rows_of(batches) == [row_of("eins", "one")]


def test_few_pairs_in_the_shapes_of_many_are_one_step(make_cache, pairs):
    """A validation set that is smaller than a batch, in the shapes of the training set."""
    table = choose_buckets(make_cache(pairs), tokens=4096, max_buckets=1)
    validation = make_cache([("eins", "one"), ("zwei", "two")])
    batches = PairBatches(validation, table, seed=1)
    assert len(batches) == 1
    assert batches.batch(0, 0)[1].shape == (table[0].rows, table[0].widths[1])
    assert sorted(rows_of(batches)) == sorted([row_of("eins", "one"), row_of("zwei", "two")])


class TestSamplers:
    """Texts that are cut anew for every batch."""

    @staticmethod
    def doubled(strings, seed):
        """Twice as many ids as in the cache; the first half shows the seed."""
        ids = ByteTokenizer().tokenize(strings)
        return tf.concat([ids * 0 + 4 + seed % 256, ids], axis=1)

    def test_replace_what_fits(self, make_cache):
        cache = make_cache([("aaa", "t"), ("cccc", "t"), ("b", "t")], keep_text=True)
        table = BucketTable((Bucket(3, (8, 2)),))
        batches = PairBatches(cache, table, seed=1, samplers={"source": self.doubled})
        sources = sorted((source for source, _, _ in rows_of(batches)), key=len)
        mark = sources[0][0]
        assert sources == [
            [mark, *ids("b"), 3],
            [*ids("cccc"), 3],  # twice four and END do not fit: the row keeps its own ids
            [mark, mark, mark, *ids("aaa"), 3],
        ]

    def test_differ_from_batch_to_batch_and_are_pure(self, make_cache, pairs):
        cache = make_cache(pairs, keep_text=True)
        table = choose_buckets(cache, tokens=400, max_buckets=3, room=2)
        first, second = (
            PairBatches(cache, table, seed=1, samplers={"source": self.doubled}) for _ in range(2)
        )
        marks = set()
        for epoch, number in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            inputs, _ = first.batch(epoch, number)
            again, _ = second.batch(epoch, number)
            np.testing.assert_array_equal(inputs["source"], again["source"])
            marks.add(int(inputs["source"][0, 0]))
        assert len(marks) > 1
        for number, (inputs, _) in enumerate(first.dataset(epochs=1)):
            again, _ = second.batch(0, number)
            np.testing.assert_array_equal(inputs["source"], again["source"])
        assert first.fingerprint() != PairBatches(cache, table, seed=1).fingerprint()

    def test_work_with_a_tokenizer_that_samples(self, make_cache, tmp_path):
        lines = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
        tokenizer = learn_tokenizer("sentencepiece", lines, 290, model="bpe", progress=None)
        corpus = MemoryCorpus([(line, line) for line in lines])
        cache = tokenize_corpus(corpus, tokenizer, tmp_path, keep_text=True)
        table = choose_buckets(cache, room=3)
        samplers = dict.fromkeys(("source", "target"), tokenizer.sample)
        batches = PairBatches(cache, table, seed=1, samplers=samplers)
        found = [row for epoch in range(3) for row in rows_of(batches, epoch)]
        assert len({str(source) for source, _, _ in found}) > 3  # more cuts than texts
        for column in (0, 2):
            texts = tokenizer.detokenize(tf.ragged.constant([row[column] for row in found]))
            assert collections.Counter(text.decode() for text in texts.numpy()) == dict.fromkeys(
                lines, 30
            )

    def test_need_the_text(self, make_cache, pairs):
        cache = make_cache(pairs)
        with pytest.raises(ValueError, match=r"without its text.*keep_text=True"):
            PairBatches(cache, choose_buckets(cache), seed=1, samplers={"source": self.doubled})

    def test_need_a_column_that_exists(self, make_cache, pairs):
        cache = make_cache(pairs, keep_text=True)
        with pytest.raises(ValueError, match="`samplers` must be one of 'source', 'target'"):
            PairBatches(cache, choose_buckets(cache), seed=1, samplers={"text": self.doubled})
