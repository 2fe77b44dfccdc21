import itertools

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import Bucket, BucketTable, PairBatches, choose_buckets


def padded_slots(table, lengths):
    """The slots that the examples take, each in a row of its bucket."""
    return sum(sum(table[index].widths) for index in table.assign(np.array(lengths)))


def lengths_of(pairs):
    return [(len(source), len(target)) for source, target in pairs]


def test_holds_every_example_within_the_budget(make_cache, pairs):
    table = choose_buckets(make_cache(pairs), tokens=400)
    assert -1 not in table.assign(np.array(lengths_of(pairs)))
    assert 1 < len(table) <= 20
    for bucket in table.buckets:
        assert bucket.rows * max(bucket.widths) <= 400
        # No more is left of the budget than rows in multiples of eight make necessary.
        assert (bucket.rows + 8) * max(bucket.widths) > 400


def test_the_second_shape_is_the_best_of_all(make_cache, pairs):
    pairs = [(source[:15], target[:12]) for source, target in pairs]
    lengths = lengths_of(pairs)
    largest = tuple(np.max(lengths, axis=0) + 1)
    best = min(
        padded_slots(BucketTable((Bucket(1, shape), Bucket(1, largest))), lengths)
        for shape in itertools.product(range(1, largest[0] + 1), range(1, largest[1] + 1))
        if sum(shape) < sum(largest)
    )
    table = choose_buckets(make_cache(pairs), max_buckets=2)
    assert table[1].widths == largest
    assert padded_slots(table, lengths) == best


def test_more_shapes_mean_less_padding(make_cache, pairs):
    cache = make_cache(pairs)
    slots = [
        padded_slots(choose_buckets(cache, max_buckets=number), lengths_of(pairs))
        for number in (1, 2, 4, 8, 16)
    ]
    assert slots == sorted(slots, reverse=True)
    assert slots[-1] < 0.75 * slots[0]


def test_a_document_has_one_width(make_cache, documents):
    cache = make_cache(documents, columns=("text",))
    table = choose_buckets(cache, max_buckets=4)
    assert [len(bucket.widths) for bucket in table.buckets] == [1] * 4
    assert table[-1].widths[0] == max(len(text) for (text,) in documents) + 1


def test_a_label_has_no_width(make_cache):
    cache = make_cache([("long text", "a"), ("text", "b")], columns=("text", "label"))
    assert [bucket.widths for bucket in choose_buckets(cache).buckets] == [(5,), (10,)]


def test_is_the_same_every_time(make_cache, pairs):
    cache = make_cache(pairs)
    assert choose_buckets(cache) == choose_buckets(cache)


def test_one_example_has_one_row(make_cache):
    table = choose_buckets(make_cache([("eins", "one")]))
    assert table == BucketTable((Bucket(1, (5, 4)),))


def test_what_is_skipped_has_no_bucket(make_cache):
    examples = [("a" * 5, "b" * 5)] * 3 + [("a" * 300, "b" * 5)]
    table = choose_buckets(make_cache(examples))
    assert [bucket.widths for bucket in table.buckets] == [(6, 6)]
    table = choose_buckets(make_cache(examples), too_long="truncate")
    assert table[-1].widths == (256, 6)


def test_default_shapes_leave_less_than_a_tenth_of_padding(make_cache):
    # Lengths like those of a translation corpus: mean 14, target 0.7 to 1.4 times the source.
    generator = np.random.default_rng(5)
    sources = np.clip(generator.gamma(7, 2, 20000), 2, 60).astype(int)
    targets = np.clip(sources * generator.lognormal(0, 0.18, 20000), 2, 60).astype(int)
    cache = make_cache([("a" * s, "b" * t) for s, t in zip(sources, targets, strict=True)])
    report = PairBatches(cache, choose_buckets(cache), seed=1).report()
    assert report.efficiency > 0.9


def test_says_what_to_do_if_nothing_fits(make_cache):
    cache = make_cache([("a" * 30, "b" * 20), ("a" * 40, "b" * 90)])
    with pytest.raises(UserError, match=r"All 2 examples .*max_length`=16.*shortest has 31\. Set"):
        choose_buckets(cache, max_length=16)
    with pytest.raises(UserError, match=r"of 50 tokens cannot hold .* 91 tokens .* at most 50"):
        choose_buckets(cache, tokens=50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 0}, "`tokens` must be a whole number of at least 1; got 0"),
        ({"max_length": 1}, "`max_length` must be a whole number of at least 2; got 1"),
        ({"max_buckets": 0}, "`max_buckets` must be a whole number of at least 1; got 0"),
        ({"too_long": "cut"}, "`too_long` must be one of 'skip', 'truncate'; got 'cut'"),
        ({"room": 0.5}, "`room` must be at least 1"),
    ],
)
def test_refuses_settings_that_make_no_sense(make_cache, arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_buckets(make_cache([("a", "b")]), **arguments)
