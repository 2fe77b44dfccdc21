"""A corpus made by a program."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import MemoryCorpus


def test_examples_come_as_they_were_given():
    examples = [("eins", "one"), ("zwei", "two")]
    corpus = MemoryCorpus(iter(examples))
    assert list(corpus) == list(corpus) == examples
    assert len(corpus) == 2
    assert corpus.check().examples == 2


def test_the_fingerprint_tells_corpora_apart():
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
def test_what_is_no_example(example):
    message = r"Example 1 must be 2 non-blank strings \(source, target\) without NUL; got"
    with pytest.raises(ValueError, match=message):
        MemoryCorpus([("a", "b"), example])


def test_lone_surrogates_are_refused():
    with pytest.raises(ValueError, match="Example 0 cannot be written as UTF-8"):
        MemoryCorpus([("\ud800", "b")])


def test_unknown_columns():
    with pytest.raises(ValueError, match=r"`columns` must be one of .* got \('a', 'b'\)"):
        MemoryCorpus([], columns=("a", "b"))


def test_no_examples():
    with pytest.raises(UserError, match="validation: no examples"):
        MemoryCorpus([], name="validation").check()
