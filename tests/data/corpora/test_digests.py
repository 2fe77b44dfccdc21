"""Equal examples are found without holding their texts."""

from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.corpora.corpus_report import DuplicateCounter, example_digest


def count(examples, **settings):
    counter = DuplicateCounter(**settings)
    for example in examples:
        counter.add(example)
    return counter


@given(examples=st.lists(st.tuples(st.text("ab", max_size=3))), block=st.integers(1, 7))
def test_the_count_is_exact_within_the_limit(examples, block):
    counter = count(examples, block=block)
    assert counter.duplicates == len(examples) - len(set(examples))
    assert counter.is_exact


@given(
    examples=st.lists(st.tuples(st.text("abc", max_size=3))),
    block=st.integers(1, 7),
    limit=st.integers(0, 5),
)
def test_the_count_is_a_lower_bound_beyond_the_limit(examples, block, limit):
    counter = count(examples, block=block, max_distinct=limit)
    distinct = len(set(examples))
    assert counter.duplicates <= len(examples) - distinct
    assert counter.is_exact == (distinct <= limit)
    assert not counter.is_exact or counter.duplicates == len(examples) - distinct


def test_asking_in_between_changes_nothing():
    counter = count([("a",), ("a",)])
    assert counter.duplicates == 1
    counter.add(("a",))
    assert counter.duplicates == counter.duplicates == 2


def test_columns_are_kept_apart():
    assert example_digest(("ab", "c")) != example_digest(("a", "bc"))
