"""Corpora in memory, and labels for classification."""

import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import JsonLinesCorpus, LabeledCorpus, MemoryCorpus, TsvCorpus


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


# Labels.


@pytest.fixture
def labeled(tmp_path):
    def labeled(text, **settings):
        path = tmp_path / "labels.tsv"
        path.write_text(text)
        return LabeledCorpus(TsvCorpus(path, columns=("text", "label")), **settings)

    return labeled


def test_labels_are_found_and_sorted(labeled):
    corpus = labeled("a\tpos\nb\tneg\nc\tpos\n")
    assert corpus.columns == ("text", "label")
    assert list(corpus) == [("a", "pos"), ("b", "neg"), ("c", "pos")]
    assert corpus.labels == ("neg", "pos")
    assert corpus.check().examples == 3


def test_integer_labels_sort_as_numbers(labeled):
    corpus = labeled("a\t10\nb\t9\nc\t-1\n", integer_labels=True)
    assert corpus.labels == ("-1", "9", "10")


def test_labels_of_json_lines(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n')
    corpus = JsonLinesCorpus(path, keys={"text": "text", "label": "label"})
    assert LabeledCorpus(corpus, integer_labels=True).labels == ("0", "1")


def test_unknown_label_in_validation_raises_with_hint(labeled, tmp_path):
    training = labeled("a\tpositive\nb\tnegative\n").labels
    validation = labeled("a\tpositive\n\nb\tpositve\n", labels=training)
    with pytest.raises(UserError, match=r"'positve'.* Did you mean 'positive'\?") as caught:
        validation.check()
    assert caught.value.where == f"{tmp_path}/labels.tsv:3"


def test_single_class_raises(labeled, tmp_path):
    with pytest.raises(UserError, match=rf"{tmp_path}/labels.tsv: all 2 .*'pos'"):
        labeled("a\tpos\nb\tpos\n").check()


def test_single_class_with_given_labels_is_valid(labeled):
    assert labeled("a\tpos\n", labels=("neg", "pos")).check().examples == 1


@pytest.mark.parametrize("value", ["1.0", "one", "01", "+1", "١", "1 "])
def test_non_integer_label_raises(labeled, tmp_path, value):
    message = f"{tmp_path}/labels.tsv:2: the label must be an integer; got {value!r}"
    with pytest.raises(UserError, match=re.escape(message)):
        labeled(f"a\t0\nb\t{value}\n", integer_labels=True).check()


def test_too_many_labels_raise(labeled):
    text = "".join(f"text\tlabel {number}\n" for number in range(10_001))
    with pytest.raises(UserError, match=r"labels.tsv:10001: more than 10,000"):
        labeled(text).check()


def test_labels_can_be_given_as_integers(labeled):
    assert labeled("a\t1\n", labels=[0, 1], integer_labels=True).check().examples == 1


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match=r"`corpus` must have the columns \('text', 'label'\)"):
        LabeledCorpus(MemoryCorpus([("a", "b")]))


def test_fingerprint_depends_on_content_and_settings(labeled):
    text = "a\t1\nb\t0\n"
    prints = [
        labeled(text).fingerprint(),
        labeled(text, integer_labels=True).fingerprint(),
        labeled(text, labels=("0", "1")).fingerprint(),
        labeled("a\t1\nc\t0\n").fingerprint(),
    ]
    assert len(set(prints)) == 4
    assert prints[0] == labeled(text).fingerprint()


def test_change_after_check_raises(labeled, tmp_path):
    corpus = labeled("a\t1\nb\t0\n")
    corpus.check()
    (tmp_path / "labels.tsv").write_text("a\t1\n")
    with pytest.raises(UserError, match=r"labels\.tsv: changed"):
        list(corpus)


def test_empty_corpus_raises(labeled):
    with pytest.raises(UserError, match="no examples"):
        labeled("\n").check()
