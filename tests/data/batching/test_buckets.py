"""Bucket tables, and the choice of the shapes."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import Bucket, BucketTable, PairBatches, choose_buckets


@st.composite
def tables(draw):
    shapes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
    shapes.append((max(s for s, _ in shapes), max(t for _, t in shapes)))
    shapes = sorted(set(shapes), key=lambda shape: (sum(shape), shape))
    too_long = draw(st.sampled_from(["skip", "truncate"]))
    return BucketTable(tuple(Bucket(4, shape) for shape in shapes), too_long)


@given(tables(), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=1))
def test_assign_gives_cheapest_bucket_that_holds_example(table, lengths):
    assigned = table.assign(np.array(lengths))
    for (source, target), index in zip(lengths, assigned, strict=True):
        holding = [
            sum(bucket.lengths)
            for bucket in table.buckets
            if source + 1 <= bucket.lengths[0] and target + 1 <= bucket.lengths[1]
        ]
        if holding:
            bucket = table[index]
            assert source < bucket.lengths[0]
            assert target < bucket.lengths[1]
            assert sum(bucket.lengths) == min(holding)
        else:
            assert index == (-1 if table.too_long == "skip" else len(table) - 1)


@given(tables())
def test_next_larger_bucket_holds_smaller_one(table):
    assert table.next_larger(len(table) - 1) is None
    for index in range(len(table) - 1):
        larger = table[table.next_larger(index)]
        assert larger.lengths != table[index].lengths
        assert np.all(np.array(larger.lengths) >= table[index].lengths)


@given(tables())
def test_config_survives_json(table):
    assert BucketTable.from_config(json.loads(json.dumps(table.get_config()))) == table


def test_headroom_makes_sequences_longer():
    table = BucketTable((Bucket(4, (11,)), Bucket(4, (16,))), headroom=1.5)
    assert table.assign(np.array([[6], [7], [10]])).tolist() == [0, 1, 1]


def test_headroom_makes_no_sequence_too_long():
    table = BucketTable((Bucket(4, (11,)), Bucket(4, (16,))), headroom=1.5)
    assert table.assign(np.array([[11], [15], [16]])).tolist() == [1, 1, -1]


def test_headroom_by_column():
    table = BucketTable(
        (Bucket(4, (7, 7)), Bucket(4, (9, 7)), Bucket(2, (9, 9))), headroom=[1.5, 1]
    )
    assert table.assign(np.array([[4, 6], [5, 6], [4, 7]])).tolist() == [0, 1, 2]
    assert BucketTable.from_config(json.loads(json.dumps(table.get_config()))) == table


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "at least one bucket"),
        ([(5, 5), (3, 3)], r"must end with .*\(5, 5\), and \(3, 3\)"),
        ([(2, 9), (8, 4)], "must end with"),
        ([(5,), (6, 6)], "must end with"),
        ([(4, 4), (3, 3), (5, 5)], r"sorted .*got \(4, 4\) before \(3, 3\)"),
    ],
)
def test_invalid_tables_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        BucketTable(tuple(Bucket(2, shape) for shape in shapes))


def test_invalid_settings_of_tables_are_refused():
    buckets = (Bucket(2, (5,)),)
    with pytest.raises(ValueError, match="Did you mean 'truncate'"):
        BucketTable(buckets, too_long="truncated")
    with pytest.raises(ValueError, match=r"`headroom` must be at least 1.*got 0.9"):
        BucketTable(buckets, headroom=0.9)
    with pytest.raises(ValueError, match=r"`rows` must be .*got 0"):
        Bucket(0, (5,))
    with pytest.raises(ValueError, match=r"`lengths` must be .* got 2\.5"):
        Bucket(1, (2.5,))


# Choice of the shapes.


def padded_slots(table, lengths):
    """Returns the slots of the examples, each in a row of its bucket."""
    return sum(sum(table[index].lengths) for index in table.assign(np.array(lengths)))


def lengths_of(pairs):
    return [(len(source), len(target)) for source, target in pairs]


def test_choose_buckets_holds_every_example_within_token_limit(make_cache, pairs):
    table = choose_buckets(make_cache(pairs), tokens=400)
    assert -1 not in table.assign(np.array(lengths_of(pairs)))
    assert 1 < len(table) <= 20
    for bucket in table.buckets:
        assert bucket.rows * max(bucket.lengths) <= 400
        # The batch is as large as a number of rows that is a multiple of eight can be.
        assert (bucket.rows + 8) * max(bucket.lengths) > 400


def test_choose_buckets_adds_the_best_second_shape(make_cache, pairs):
    pairs = [(source[:15], target[:12]) for source, target in pairs]
    lengths = lengths_of(pairs)
    largest = tuple(np.max(lengths, axis=0) + 1)
    best = min(
        padded_slots(BucketTable((Bucket(1, shape), Bucket(1, largest))), lengths)
        for shape in itertools.product(range(1, largest[0] + 1), range(1, largest[1] + 1))
        if sum(shape) < sum(largest)
    )
    table = choose_buckets(make_cache(pairs), max_buckets=2)
    assert table[1].lengths == largest
    assert padded_slots(table, lengths) == best


def test_more_buckets_give_less_padding(make_cache, pairs):
    cache = make_cache(pairs)
    slots = [
        padded_slots(choose_buckets(cache, max_buckets=number), lengths_of(pairs))
        for number in (1, 2, 4, 8, 16)
    ]
    assert slots == sorted(slots, reverse=True)
    assert slots[-1] < 0.75 * slots[0]


def test_buckets_of_documents_have_one_length(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    table = choose_buckets(cache, max_buckets=4)
    assert [len(bucket.lengths) for bucket in table.buckets] == [1] * 4
    assert table[-1].lengths[0] == max(len(text) for (text,) in documents) + 1


def test_buckets_of_labeled_texts_have_one_length(make_cache):
    cache = make_cache([("long text", "a"), ("text", "b")], columns=("text", "label"))
    assert [bucket.lengths for bucket in choose_buckets(cache).buckets] == [(5,), (10,)]


def test_choose_buckets_is_deterministic(make_cache, pairs):
    cache = make_cache(pairs)
    assert choose_buckets(cache) == choose_buckets(cache)


def test_bucket_of_single_example_has_one_row(make_cache):
    table = choose_buckets(make_cache([("eins", "one")]))
    assert table == BucketTable((Bucket(1, (5, 4)),))


def test_skipped_examples_have_no_bucket(make_cache):
    examples = [("a" * 5, "b" * 5)] * 3 + [("a" * 300, "b" * 5)]
    table = choose_buckets(make_cache(examples))
    assert [bucket.lengths for bucket in table.buckets] == [(6, 6)]
    table = choose_buckets(make_cache(examples), too_long="truncate")
    assert table[-1].lengths == (256, 6)


def test_default_buckets_leave_less_than_a_tenth_of_padding(make_cache):
    # Lengths like those of a translation corpus: mean 14, target 0.7 to 1.4 times the source.
    generator = np.random.default_rng(5)
    sources = np.clip(generator.gamma(7, 2, 20000), 2, 60).astype(int)
    targets = np.clip(sources * generator.lognormal(0, 0.18, 20000), 2, 60).astype(int)
    cache = make_cache([("a" * s, "b" * t) for s, t in zip(sources, targets, strict=True)])
    report = PairBatches(cache, choose_buckets(cache), seed=1).report()
    assert report.efficiency > 0.9


def test_choose_buckets_raises_if_nothing_fits(make_cache):
    cache = make_cache([("a" * 30, "b" * 20), ("a" * 40, "b" * 90)])
    with pytest.raises(UserError, match=r"all 2 examples .*16 tokens.* shortest has 31") as caught:
        choose_buckets(cache, max_length=16)
    assert caught.value.argument == "max_length"
    with pytest.raises(UserError, match=r"50 tokens .* 91 .* at least 91") as caught:
        choose_buckets(cache, tokens=50)
    assert caught.value.arguments == ("tokens", "max_length")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 0}, "`tokens` must be .*got 0"),
        ({"max_length": 1}, "`max_length` must be .*got 1"),
        ({"max_buckets": 0}, "`max_buckets` must be .*got 0"),
        ({"too_long": "cut"}, "`too_long` must be .*'skip', 'truncate'; got 'cut'"),
        ({"headroom": 0.5}, "`headroom` must be at least 1"),
    ],
)
def test_choose_buckets_refuses_invalid_settings(make_cache, arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_buckets(make_cache([("a", "b")]), **arguments)
