"""Registry of built-in corpora."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    BUILTIN_CORPORA,
    CorpusSplits,
    MemoryCorpus,
    make_dates,
    make_recall,
    open_builtin,
    register_builtin,
)


def test_open_builtin_gives_splits_of_dates():
    splits, dates = open_builtin("dates", 50), make_dates(training_pairs=50)
    assert list(splits.train) == list(dates.train)
    assert list(splits.validation) == list(dates.validation)
    assert {name: list(corpus) for name, corpus in splits.tests.items()} == {
        "unseen dates": list(dates.test),
        "unseen languages": list(dates.held_out),
    }


def test_open_builtin_gives_a_test_for_each_distance_of_recall():
    splits, recall = open_builtin("recall", 50), make_recall(training_pairs=50)
    assert list(splits.train) == list(recall.train)
    assert list(splits.tests) == [f"distance_{distance}" for distance in recall.tests]


def test_registered_corpus_is_opened_by_name(monkeypatch):
    monkeypatch.setitem(BUILTIN_CORPORA, "copy", None)
    del BUILTIN_CORPORA["copy"]

    @register_builtin("copy")
    def open_copy(training_pairs):
        corpus = MemoryCorpus([(f"{n}", f"{n}") for n in range(training_pairs)])
        return CorpusSplits(corpus, None, {})

    assert len(open_builtin("copy", 3).train) == 3
    with pytest.raises(UserError, match=r"'copy'.* taken"):
        register_builtin("copy")(open_copy)


def test_open_builtin_with_unknown_name_raises_with_choices():
    with pytest.raises(UserError, match="'dates', 'recall'; got 'date'"):
        open_builtin("date")
