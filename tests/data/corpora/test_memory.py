"""Corpora in memory."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import MemoryCorpus


def test_examples_are_yielded_in_order():
    examples = [("eins", "one"), ("zwei", "two")]
    corpus = MemoryCorpus(iter(examples))
    assert list(corpus) == list(corpus) == examples
    assert len(corpus) == 2
    assert corpus.check().examples == 2


def test_fingerprint_distinguishes_corpora():
    corpora = [
        MemoryCorpus([("ab", "c")]),
        MemoryCorpus([("a", "bc")]),
        MemoryCorpus([("ab", "c"), ("ab", "c")]),
        MemoryCorpus([("ab", "c")], columns=("text", "label")),
        MemoryCorpus([("ab",), ("c",)], columns=("text",)),
    ]
    assert len({corpus.fingerprint() for corpus in corpora}) == len(corpora)
    assert MemoryCorpus([("ab", "c")]).fingerprint() == corpora[0].fingerprint()


@pytest.mark.parametrize("example", [("a",), ("a", "b", "c"), ("a", " "), ("a", 1), ("a", "b\0")])
def test_invalid_example_is_refused(example):
    with pytest.raises(UserError, match=r"Example 1 must be 2 non-blank .*source, target"):
        MemoryCorpus([("a", "b"), example])


def test_lone_surrogates_are_refused():
    with pytest.raises(UserError, match=r"Example 0 .*UTF-8"):
        MemoryCorpus([("\ud800", "b")])


def test_unknown_columns_are_refused():
    with pytest.raises(UserError, match=r"`columns` must be one of .* got \('a', 'b'\)"):
        MemoryCorpus([], columns=("a", "b"))


def test_check_without_examples_raises():
    with pytest.raises(UserError, match="validation: no examples"):
        MemoryCorpus([], name="validation").check()
