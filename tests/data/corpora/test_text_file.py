"""Text files as users have them: other encodings, other line ends, endless lines."""

import gzip
import os
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import LineDocuments, ReadingRules

SKIP = ReadingRules(on_bad_line="skip")


def texts(path, rules=None):
    corpus = LineDocuments(path, rules) if rules else LineDocuments(path)
    return [text for (text,) in corpus]


@pytest.fixture
def write(tmp_path):
    def write(content, name="corpus.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["plain", "gzip"])
def test_empty_file_has_no_examples(write, content):
    path = write(content)
    message = (
        f"{path}: no examples (0 blank lines, 0 bad lines, 0 too long). "
        "Check that this is the right file."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        LineDocuments(path).check()


def test_only_blank_lines(write):
    with pytest.raises(UserError, match=r"no examples \(3 blank lines, 0 bad lines"):
        LineDocuments(write(b"\n \t\n\xe2\x80\xa8\n")).check()


def test_blank_lines_are_skipped_and_counted(write):
    report = LineDocuments(write(b"one\n\n  \ntwo\n\n")).check()
    assert (report.examples, report.blank_lines) == (2, 3)
    assert "blank lines skipped: 3" in report.summary()


def test_crlf_gives_the_same_examples_as_lf(write):
    lines = ["one", "two words", "drei"]
    unix = texts(write("\n".join(lines).encode(), "unix"))
    windows = texts(write("\r\n".join(lines).encode() + b"\r\n", "windows"))
    assert windows == unix == lines


def test_lone_carriage_return_is_a_bad_line(write):
    path = write(b"one\ntwo\rthree\nfour\n")
    message = (
        f"{path}:2: a carriage return inside the line (line ends of an old Mac?). "
        "Turn them into line feeds: tr '\\r' '\\n' < OLD > NEW, "
        'or leave such lines out with on_bad_line="skip".'
    )
    with pytest.raises(UserError, match=re.escape(message)):
        texts(path)
    report = LineDocuments(path, SKIP).check()
    assert (report.examples, report.bad_lines) == (2, 1)
    assert report.warnings == (
        f"Bad lines skipped: 1; the first: {path}:2: a carriage return inside the line "
        "(line ends of an old Mac?).",
    )


def test_a_whole_old_mac_file_is_called_that_however_long(write):
    path = write(b"one line\r" * 100_000)
    with pytest.raises(UserError, match=r"corpus\.txt:1: a carriage return inside the line"):
        texts(path, ReadingRules(max_characters=100))


def test_invalid_utf8_names_file_line_and_byte(write):
    path = write("one\ngrün ".encode() + b"\xff\n")
    message = (
        f"{path}:2:7: byte 0xFF is not UTF-8. Turn the text into UTF-8, or put U+FFFD there "
        'with encoding_errors="replace", or leave such lines out with on_bad_line="skip".'
    )
    with pytest.raises(UserError, match=re.escape(message)):
        texts(path)
    assert texts(path, SKIP) == ["one"]


def test_invalid_utf8_is_replaced_and_counted_on_request(write):
    path = write(b"a\xffb\n\xe4\xb8\n")
    rules = ReadingRules(encoding_errors="replace")
    assert texts(path, rules) == ["a\ufffdb", "\ufffd"]
    report = LineDocuments(path, rules).check()
    assert report.replacements == 2
    assert "Byte sequences that were not UTF-8 and became U+FFFD: 2. Is the file really UTF-8?" in (
        report.warnings
    )


def test_nul_is_removed_and_counted(write):
    path = write(b"a\0b\nplain\n\0\0\0\n")
    assert texts(path) == ["ab", "plain"]
    report = LineDocuments(path).check()
    assert (report.nul_characters, report.blank_lines) == (4, 1)
    assert "NUL characters removed: 4. Is the file damaged?" in report.warnings


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_long_lines_are_skipped_and_counted(write, pack):
    path = write(pack(b"one\n" + b"x" * 1_000_000 + b"\ntwo\n" + "é".encode() * 500_000))
    report = LineDocuments(path, ReadingRules()).check()
    assert (report.examples, report.too_long) == (2, 2)
    assert "Too long and skipped: 2. Split them, or raise max_characters." in (report.warnings)


@pytest.mark.parametrize("character", ["x", "é", "語", "😀"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_limit_is_in_characters_and_inclusive(write, character, end):
    path = write(f"{character * 10}\r\n{character * 11}\n{character * 10}{end}".encode())
    assert texts(path, ReadingRules(max_characters=10)) == [character * 10] * 2


def test_a_line_of_a_gigabyte_is_never_held_whole(tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_bytes(b"one\n")
    os.truncate(path, 10**9)
    with open(path, "ab") as file:
        file.write(b"\ntwo\n")
    tracemalloc.start()
    try:
        found = texts(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == ["one", "two"]
    # 4 MB of a line of a million characters are kept, in a few copies.
    assert peak < 32 * 2**20


def test_last_line_without_line_feed_is_used(write):
    assert texts(write(b"one\ntwo")) == ["one", "two"]


line_texts = st.text(
    st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20
).filter(lambda text: not text.startswith("\ufeff"))


@given(
    lines=st.lists(line_texts, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    has_final_end=st.booleans(),
    is_packed=st.booleans(),
)
def test_what_is_written_is_read(tmp_path_factory, lines, end, has_final_end, is_packed):
    content = (end.join(lines) + end * has_final_end).encode()
    path = tmp_path_factory.mktemp("lines") / "corpus"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert texts(path) == [line for line in lines if line.strip()]


@given(content=st.binary(max_size=200) | st.text("\ta\r\n\0\ufeff").map(str.encode))
def test_any_bytes_are_read_the_same_twice_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "corpus"
    path.write_bytes(content)
    rules = ReadingRules(on_bad_line="skip", encoding_errors="replace", max_characters=30)
    try:
        corpus = LineDocuments(path, rules)
    except UserError:
        return
    found = list(corpus)
    assert list(corpus) == found
    assert all(text.strip() and len(text) <= 30 for (text,) in found)
    if not found:
        with pytest.raises(UserError, match="no examples"):
            corpus.check()
        return
    report = corpus.check()
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    assert report.examples == len(found)
    assert report.examples + report.blank_lines + report.bad_lines + report.too_long == lines
