import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import Bucket, BucketTable


@st.composite
def tables(draw):
    shapes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
    shapes.append((max(s for s, _ in shapes), max(t for _, t in shapes)))
    shapes = sorted(set(shapes), key=lambda shape: (sum(shape), shape))
    too_long = draw(st.sampled_from(["skip", "truncate"]))
    return BucketTable(tuple(Bucket(4, shape) for shape in shapes), too_long)


@given(tables(), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=1))
def test_an_example_belongs_to_the_cheapest_bucket_that_holds_it(table, lengths):
    assigned = table.assign(np.array(lengths))
    for (source, target), index in zip(lengths, assigned, strict=True):
        holding = [
            sum(bucket.widths)
            for bucket in table.buckets
            if source + 1 <= bucket.widths[0] and target + 1 <= bucket.widths[1]
        ]
        if holding:
            bucket = table[index]
            assert source < bucket.widths[0]
            assert target < bucket.widths[1]
            assert sum(bucket.widths) == min(holding)
        else:
            assert index == (-1 if table.too_long == "skip" else len(table) - 1)


@given(tables())
def test_the_next_larger_bucket_holds_what_the_bucket_holds(table):
    assert table.next_larger(len(table) - 1) is None
    for index in range(len(table) - 1):
        larger = table[table.next_larger(index)]
        assert larger.widths != table[index].widths
        assert np.all(np.array(larger.widths) >= table[index].widths)


@given(tables())
def test_survives_json(table):
    assert BucketTable.from_config(json.loads(json.dumps(table.get_config()))) == table


def test_room_makes_sequences_longer():
    table = BucketTable((Bucket(4, (11,)), Bucket(4, (16,))), room=1.5)
    assert table.assign(np.array([[6], [7], [10]])).tolist() == [0, 1, 1]


def test_room_makes_nothing_too_long_that_fits_without_it():
    table = BucketTable((Bucket(4, (11,)), Bucket(4, (16,))), room=1.5)
    assert table.assign(np.array([[11], [15], [16]])).tolist() == [1, 1, -1]


def test_each_column_may_have_room_of_its_own():
    table = BucketTable((Bucket(4, (7, 7)), Bucket(4, (9, 7)), Bucket(2, (9, 9))), room=[1.5, 1])
    assert table.assign(np.array([[4, 6], [5, 6], [4, 7]])).tolist() == [0, 1, 2]
    assert BucketTable.from_config(json.loads(json.dumps(table.get_config()))) == table


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([], "`buckets` must have at least one bucket; got none."),
        ([(5, 5), (3, 3)], r"must end with one that holds all.*\(5, 5\) and at the end \(3, 3\)"),
        ([(2, 9), (8, 4)], r"must end with one that holds all"),
        ([(5,), (6, 6)], r"must end with one that holds all"),
        ([(4, 4), (3, 3), (5, 5)], r"sorted by the sum.*got \(4, 4\) before \(3, 3\)"),
    ],
)
def test_refuses_tables_that_make_no_sense(shapes, message):
    with pytest.raises(ValueError, match=message):
        BucketTable(tuple(Bucket(2, shape) for shape in shapes))


def test_refuses_settings_that_make_no_sense():
    buckets = (Bucket(2, (5,)),)
    with pytest.raises(ValueError, match="Did you mean 'truncate'"):
        BucketTable(buckets, too_long="truncated")
    with pytest.raises(ValueError, match="`room` must be at least 1, the length in the cache"):
        BucketTable(buckets, room=0.9)
    with pytest.raises(ValueError, match="`rows` must be a whole number of at least 1; got 0"):
        Bucket(0, (5,))
    with pytest.raises(ValueError, match=r"`widths` must be a whole number .* got 2\.5"):
        Bucket(1, (2.5,))
