"""Tab-separated files."""

import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import ReadingRules, TsvCorpus

SKIP = ReadingRules(on_bad_line="skip")


@pytest.fixture
def write(tmp_path):
    def write(text, name="pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def test_pairs_in_two_columns(write):
    corpus = TsvCorpus(write("eins\tone\r\nzwei Worte\ttwo words"))
    assert corpus.columns == ("source", "target")
    assert list(corpus) == [("eins", "one"), ("zwei Worte", "two words")]


@pytest.mark.parametrize(
    ("line", "columns"),
    [("nur eins", "1 column"), ("a\tb\tc", "3 columns"), ("a\tb\t", "3 columns")],
)
def test_wrong_number_of_columns_raises_or_is_skipped(write, line, columns):
    path = write(f"eins\tone\n{line}\ndrei\tthree\n")
    message = f"{path}:2: {columns}, but 2 columns (source, target) were expected."
    with pytest.raises(UserError, match=re.escape(message)):
        TsvCorpus(path).check()
    corpus = TsvCorpus(path, rules=SKIP)
    assert list(corpus) == [("eins", "one"), ("drei", "three")]
    report = corpus.check()
    assert report.bad_lines == 1
    (warning,) = report.warnings
    assert warning.endswith(message)


def test_columns_are_chosen_by_name(write):
    path = write("7\tone\t0.5\teins\n")
    assert list(TsvCorpus(path, columns=("id", "target", "score", "source"))) == [("eins", "one")]
    documents = TsvCorpus(path, columns=("id", "text", "-", "-"))
    assert (documents.columns, list(documents)) == (("text",), [("one",)])
    labeled = TsvCorpus(path, columns=("label", "text", "-", "-"))
    assert (labeled.columns, list(labeled)) == (("text", "label"), [("one", "7")])


@pytest.mark.parametrize(
    "columns", [("source",), ("a", "b"), ("source", "target", "text"), ("source", "source"), ()]
)
def test_invalid_columns_are_refused(write, columns):
    with pytest.raises(UserError, match="`columns` must be .*got " + re.escape(str(columns))):
        TsvCorpus(write("a\tb\n"), columns=columns)


def test_blank_fields_and_lines_are_skipped(write):
    report = TsvCorpus(write("a\tb\n\t\n\n  \nc\t \n\td\n")).check()
    assert (report.examples, report.blank_lines, report.bad_lines) == (1, 5, 0)


def test_header_is_not_an_example(write):
    path = write("source\ttarget\neins\tone\n")
    assert list(TsvCorpus(path, has_header=True)) == [("eins", "one")]
    assert TsvCorpus(path, has_header=True).check().warnings == ("There is only one example.",)


@pytest.mark.parametrize("header", ["source\ttarget", "en\tde", "Source \tTarget"])
def test_first_line_that_looks_like_header_gives_warning(write, header):
    path = write(f"{header}\neins\tone\nzwei\ttwo\n")
    corpus = TsvCorpus(path)
    assert len(list(corpus)) == 3
    shown = header.replace("\t", ", ")
    (warning,) = corpus.check().warnings
    assert warning.startswith(f"{path}:1: looks like a header ({shown})")
    assert "`has_header`" in warning


def test_other_first_line_gives_no_warning(write):
    assert TsvCorpus(write("ja\tyes\nnein\tno\n")).check().warnings == ()


def test_each_file_has_its_own_header(tmp_path, write):
    write("source\ttarget\neins\tone\n", "1.tsv")
    write("source\ttarget\nzwei\ttwo\n", "2.tsv")
    corpus = TsvCorpus(tmp_path / "*.tsv", has_header=True)
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]


def test_header_that_contradicts_columns_raises(write):
    path = write("target\tsource\none\teins\n")
    message = f"{path}:1: the header calls column 2 'source', but `columns` says it is column 1."
    with pytest.raises(UserError, match=re.escape(message)):
        TsvCorpus(path, has_header=True).check()


def test_header_with_other_number_of_columns_raises(write):
    path = write("id\tsource\ttarget\n1\teins\tone\n")
    message = f"{path}:1: the header has 3 columns, but 2 columns (source, target) were expected."
    with pytest.raises(UserError, match=re.escape(message)):
        TsvCorpus(path, has_header=True).check()


def test_limit_is_for_columns_that_are_read(write):
    path = write("123456789\ta\tb\n1\taaaa\tb\n2\taaa\tbbb\n")
    corpus = TsvCorpus(path, ("id", "source", "target"), rules=ReadingRules(max_characters=3))
    assert list(corpus) == [("a", "b"), ("aaa", "bbb")]
    assert corpus.check().too_long == 1
