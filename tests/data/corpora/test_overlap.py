"""Examples that are both learned from and tested on."""

import pytest

from keras_transformer.data import LineDocuments, MemoryCorpus, TsvCorpus, count_overlap


def test_files(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tA\nb\tB\nc\tC\nb\tB\n")
    (tmp_path / "valid.tsv").write_text("b\tB\nc\tother\nd\tD\nb\tB\n")
    training, validation = TsvCorpus(tmp_path / "train.tsv"), TsvCorpus(tmp_path / "valid.tsv")
    assert count_overlap(training, validation) == 2
    assert count_overlap(validation, training) == 2
    assert count_overlap(training, training) == 4


def test_more_than_a_block():
    numbers = [(str(number), "n") for number in range(70_000)]
    training = MemoryCorpus(numbers[:69_000])
    assert count_overlap(training, MemoryCorpus(numbers[68_999:])) == 1
    assert count_overlap(MemoryCorpus(numbers[68_999:]), training) == 1


def test_the_side_of_a_text_matters():
    assert count_overlap(MemoryCorpus([("ab", "c")]), MemoryCorpus([("a", "bc")])) == 0


def test_empty_corpora(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_text("one\n")
    empty, one = LineDocuments(tmp_path / "empty"), LineDocuments(tmp_path / "one")
    assert count_overlap(empty, one) == count_overlap(one, empty) == 0


def test_columns_must_agree():
    with pytest.raises(ValueError, match=r"must have the same columns; got \('source', 'target'\)"):
        count_overlap(MemoryCorpus([("a", "b")]), MemoryCorpus([("a",)], columns=("text",)))
