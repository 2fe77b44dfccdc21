"""Registry of built-in corpora."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    BUILTIN_CORPORA,
    CorpusSplits,
    MemoryCorpus,
    open_builtin,
    register_builtin,
)


@pytest.mark.parametrize("name", sorted(BUILTIN_CORPORA))
def test_open_builtin_gives_splits_of_registered_function(name):
    splits, made = open_builtin(name, 50), BUILTIN_CORPORA[name](training_pairs=50)
    assert list(splits.train) == list(made.train)
    assert list(splits.validation) == list(made.validation)
    tests = {test: list(corpus) for test, corpus in made.tests.items()}
    assert {test: list(corpus) for test, corpus in splits.tests.items()} == tests


def test_registered_corpus_is_opened_by_name(monkeypatch):
    monkeypatch.setitem(BUILTIN_CORPORA, "test_copy", None)
    del BUILTIN_CORPORA["test_copy"]

    @register_builtin("test_copy")
    def open_copy(training_pairs):
        corpus = MemoryCorpus([(f"{n}", f"{n}") for n in range(training_pairs)])
        return CorpusSplits(corpus, None, {})

    assert len(open_builtin("test_copy", 3).train) == 3
    with pytest.raises(UserError, match=r"'test_copy'.* taken"):
        register_builtin("test_copy")(open_copy)


def test_open_builtin_with_unknown_name_raises_with_choices():
    with pytest.raises(UserError, match=r"'dates'.*'recall'.*; got 'date'"):
        open_builtin("date")
