"""Documents for language models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import BlankLineDocuments, LineDocuments, ReadingRules


@pytest.fixture
def write(tmp_path):
    def write(content, name="corpus.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_line_documents_are_lines(write):
    corpus = LineDocuments(write(b"one\n\ntwo\twith tab\n"))
    assert corpus.columns == ("text",)
    assert list(corpus) == [("one",), ("two\twith tab",)]


def test_blank_line_documents_join_lines(write):
    corpus = BlankLineDocuments(write(b"\n\na\nb\n\n \r\n\nc\r\nd"))
    assert corpus.columns == ("text",)
    assert list(corpus) == [("a\nb",), ("c\nd",)]


def test_document_ends_with_its_file(tmp_path, write):
    write(b"a\nb", "1")
    write(b"c\n", "2")
    corpus = BlankLineDocuments([tmp_path / "1", tmp_path / "2"])
    assert list(corpus) == [("a\nb",), ("c",)]


def test_check_of_only_blank_lines_raises(write):
    with pytest.raises(UserError, match=r"no examples \(4 blank lines,"):
        BlankLineDocuments(write(b"\n\n \n\n")).check()


def test_document_with_bad_line_is_bad(write):
    path = write(b"a\nb\xff\nc\xfe\nd\n\ne\nf\n")
    with pytest.raises(UserError, match=r"corpus\.txt:2:2: byte 0xFF is not UTF-8"):
        list(BlankLineDocuments(path))
    corpus = BlankLineDocuments(path, ReadingRules(on_bad_line="skip"))
    assert list(corpus) == [("e\nf",)]
    report = corpus.check()
    assert report.bad_lines == 1
    assert "corpus.txt:2:2: byte 0xFF" in report.warnings[-1]


def test_limit_is_for_whole_document(write):
    path = write(b"aaa\nbbb\n\naaa\nbbbb\n\n" + b"c\n" * 1_000 + b"\n" + b"d" * 100 + b"\n\ne\n")
    corpus = BlankLineDocuments(path, ReadingRules(max_characters=7))
    assert list(corpus) == [("aaa\nbbb",), ("e",)]
    assert corpus.check().too_long == 3


def test_default_limit_is_a_million_characters(write):
    path = write(b"x" * 1_000_000 + b"\n\n" + b"x" * 1_000_001)
    for corpus in (LineDocuments(path), BlankLineDocuments(path)):
        report = corpus.check()
        assert (report.examples, report.too_long) == (1, 1)


@given(
    documents=st.lists(
        st.lists(st.text("ab\u2028 ", min_size=1).filter(str.strip), min_size=1), min_size=1
    ),
    gap=st.integers(1, 3),
)
def test_documents_that_were_written_are_read(tmp_path_factory, documents, gap):
    joined = ["\n".join(lines) for lines in documents]
    path = tmp_path_factory.mktemp("documents") / "corpus"
    path.write_bytes(("\n" * (gap + 1)).join(joined).encode())
    assert [text for (text,) in BlankLineDocuments(path)] == joined
