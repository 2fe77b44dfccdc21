"""Lines of text files: encodings, line ends, gzip, long lines. Formats test their own rules."""

import gzip
import io
import os
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import LineDocuments, ReadingRules
from keras_transformer.data.corpora.corpus import TOO_LONG, Tally
from keras_transformer.data.corpora.file_corpus import decode_lines, unpack

SKIP = ReadingRules(on_bad_line="skip")
plain_and_gzip = pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])


def lines(content, tally=None, encoding_errors="error", max_characters=100):
    stream = unpack(io.BufferedReader(io.BytesIO(content)))
    yield from decode_lines(stream, "file", tally or Tally(), encoding_errors, max_characters)


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


# Decoding of a stream.


@plain_and_gzip
def test_decode_lines_removes_one_byte_order_mark(pack):
    content = pack(b"\xef\xbb\xbf\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(lines(content)) == ["\ufeffone", "\ufefftwo"]
    assert list(lines(pack(b"\xef\xbb\xbf"))) == []


@pytest.mark.parametrize(
    ("mark", "codec", "facts"),
    [
        (b"\xff\xfe", "utf-16-le", "UTF-16 (BOM FF FE)"),
        (b"\xfe\xff", "utf-16-be", "UTF-16 (BOM FE FF)"),
        (b"\xff\xfe\0\0", "utf-32-le", "UTF-32 (BOM FF FE 00 00)"),
        (b"\0\0\xfe\xff", "utf-32-be", "UTF-32 (BOM 00 00 FE FF)"),
        (b"", "utf-16-le", "UTF-16LE without a BOM (25 of the first 50 bytes are NUL)"),
        (b"", "utf-16-be", "UTF-16BE without a BOM (25 of the first 50 bytes are NUL)"),
    ],
)
@plain_and_gzip
@pytest.mark.parametrize("encoding_errors", ["error", "replace"])
def test_decode_lines_with_another_encoding_names_it(mark, codec, facts, pack, encoding_errors):
    content = pack(mark + "Good day\nIt is raining.\n\n".encode(codec))
    with pytest.raises(UserError, match=rf"^file: .*{re.escape(facts)}.*iconv"):
        next(lines(content, encoding_errors=encoding_errors))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_decode_lines_yields_last_line_whatever_its_end(end):
    assert list(lines(b"one\r\n\ntwo" + end)) == ["one", "", "two"]


def test_decode_lines_does_not_split_at_unicode_separators():
    line = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
    assert list(lines(f"{line}\nnext\n".encode())) == [line, "next"]


def test_decode_lines_with_carriage_return_inside_line_yields_bad_record():
    one, bad, four = lines(b"one\ntwo\rthree\nfour\n")
    assert (one, four) == ("one", "four")
    assert bad.where == "file:2"
    assert "carriage return" in bad.problem
    assert "tr '\\r' '\\n'" in bad.fix


def test_decode_lines_with_invalid_utf8_yields_bad_record_with_position():
    one, bad, three = lines("one\ngrün ".encode() + b"\xff\nthree")
    assert (one, three) == ("one", "three")
    assert (bad.where, bad.problem) == ("file:2:7", "byte 0xFF is not UTF-8.")
    assert "`encoding_errors` to replace" in bad.fix


def test_decode_lines_with_replace_counts_replacements():
    # The second line contains U+FFFD itself, and an encoded surrogate (three bytes).
    content = b"a\xffb\n\xef\xbf\xbd \xed\xa0\x80\n\xe4\xb8\n"
    tally = Tally()
    found = list(lines(content, tally, encoding_errors="replace"))
    assert found == ["a\ufffdb", "\ufffd \ufffd\ufffd\ufffd", "\ufffd"]
    assert tally.replacements == 5


def test_decode_lines_skips_rest_of_long_line_only_when_next_is_requested():
    content = io.BytesIO(b"one\n" + b"x" * 1_000_000 + b"\ntwo")
    stream = io.BufferedReader(content)
    tally = Tally()
    found = decode_lines(stream, "file", tally, "error", 10)
    assert (next(found), next(found)) == ("one", TOO_LONG)
    # The rest of a line in a pipe may arrive much later.
    assert stream.tell() == 4 + 43
    assert (next(found), tally.where) == ("two", "file:3")


# Gzip.


def test_decode_lines_with_wrong_gzip_checksum_raises():
    content = gzip.compress(os.urandom(5000).hex().encode() + b"\n")
    with pytest.raises(UserError, match=r"^file: gzip is damaged after line 0 .*Copy"):
        list(lines(content[:-8] + bytes(4) + content[-4:]))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_truncated_gzip_raises_with_line(write, share):
    content = b"".join(b"line %d %d\n" % (number, number**7) for number in range(20_000))
    packed = gzip.compress(content)
    path = write(packed[: int(len(packed) * share)], "train.gz")
    with pytest.raises(UserError, match="gzip ends early") as caught:
        texts(path)
    found = re.match(re.escape(str(path)) + r": .*after line (\d+)", str(caught.value))
    assert int(found[1]) < 20_000


def test_gzip_truncated_in_its_header_is_noticed_at_once(write):
    path = write(gzip.compress(b"text\n")[:5], "train.gz")
    with pytest.raises(UserError, match=re.escape(f"{path}: gzip ends early, after line 0")):
        LineDocuments(path)


def test_damaged_gzip_raises_with_line(write):
    packed = bytearray(gzip.compress(b"".join(b"%d\n" % number**5 for number in range(9_000))))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(UserError, match=r"train\.gz: gzip is damaged after line \d+"):
        texts(write(bytes(packed), "train.gz"))


def test_text_after_gzip_member_raises(write):
    path = write(gzip.compress(b"one\n") + b"two\n", "train.gz")
    with pytest.raises(UserError, match=r"train\.gz: gzip is damaged after line \d+"):
        texts(path)


def test_all_members_of_gzip_file_are_read(write):
    path = write(gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree\n"))
    assert texts(path) == ["one", "two", "three"]


def test_content_not_name_decides_whether_file_is_gzip(write):
    assert texts(write(b"plain\n", "plain.gz")) == ["plain"]
    assert texts(write(gzip.compress(b"packed\n"), "packed.txt")) == ["packed"]


# Corpora of lines.


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["plain", "gzip"])
def test_check_of_empty_file_raises(write, content):
    path = write(content)
    with pytest.raises(UserError, match=re.escape(f"{path}: no examples (0 blank lines, 0 bad")):
        LineDocuments(path).check()


def test_check_of_file_with_only_blank_lines_raises_with_count(write):
    with pytest.raises(UserError, match=r"no examples \(3 blank lines, 0 bad lines"):
        LineDocuments(write(b"\n \t\n\xe2\x80\xa8\n")).check()


def test_blank_lines_are_skipped_and_counted(write):
    report = LineDocuments(write(b"one\n\n  \ntwo\n\n")).check()
    assert (report.examples, report.blank_lines) == (2, 3)
    assert "blank lines skipped: 3" in report.summary()


def test_crlf_file_has_same_examples_as_lf_file(write):
    expected = ["one", "two words", "drei"]
    unix = texts(write("\n".join(expected).encode(), "unix"))
    windows = texts(write("\r\n".join(expected).encode() + b"\r\n", "windows"))
    assert windows == unix == expected


def test_bad_line_raises_with_place_or_is_skipped_and_counted(write):
    path = write(b"one\ntwo\rthree\nfour\n")
    with pytest.raises(UserError) as caught:
        texts(path)
    assert caught.value.where == f"{path}:2"
    assert "`on_bad_line` to skip" in caught.value.fix
    report = LineDocuments(path, SKIP).check()
    assert (report.examples, report.bad_lines) == (2, 1)
    (warning,) = report.warnings
    assert f"skipped: 1. The first: {path}:2: " in warning


def test_long_line_of_old_mac_file_is_bad_rather_than_too_long(write):
    path = write(b"one line\r" * 100_000)
    with pytest.raises(UserError, match=r"corpus\.txt:1: a carriage return"):
        texts(path, ReadingRules(max_characters=100))


def test_invalid_utf8_is_skipped_or_replaced_by_the_rules(write):
    path = write(b"a\xffb\n\xe4\xb8\nc\n")
    assert texts(path, SKIP) == ["c"]
    rules = ReadingRules(encoding_errors="replace")
    assert texts(path, rules) == ["a\ufffdb", "\ufffd", "c"]
    report = LineDocuments(path, rules).check()
    assert report.replacements == 2
    assert any("U+FFFD: 2." in warning for warning in report.warnings)


def test_nul_characters_are_removed_and_counted(write):
    path = write(b"a\0b\nplain\n\0\0\0\n")
    assert texts(path) == ["ab", "plain"]
    report = LineDocuments(path).check()
    assert (report.nul_characters, report.blank_lines) == (4, 1)
    assert any("NUL characters removed: 4." in warning for warning in report.warnings)


@plain_and_gzip
def test_long_lines_are_skipped_and_counted(write, pack):
    path = write(pack(b"one\n" + b"x" * 1_000_000 + b"\ntwo\n" + "é".encode() * 500_000))
    report = LineDocuments(path, ReadingRules()).check()
    assert (report.examples, report.too_long) == (2, 2)
    assert any("skipped: 2." in warning for warning in report.warnings)


@pytest.mark.parametrize("character", ["x", "é", "語", "😀"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_limit_is_inclusive_and_in_characters(write, character, end):
    path = write(f"{character * 10}\r\n{character * 11}\n{character * 10}{end}".encode())
    assert texts(path, ReadingRules(max_characters=10)) == [character * 10] * 2


def test_line_of_200_megabytes_is_never_held_whole(tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_bytes(b"one\n")
    os.truncate(path, 2 * 10**8)
    with open(path, "ab") as file:
        file.write(b"\ntwo\n")
    tracemalloc.start()
    try:
        found = texts(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == ["one", "two"]
    # 4 MB of a line of a million characters are held, in a few copies.
    assert peak < 32 * 2**20


line_texts = st.text(
    st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20
).filter(lambda text: not text.startswith("\ufeff"))


@given(
    written=st.lists(line_texts, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    has_final_end=st.booleans(),
    is_packed=st.booleans(),
)
def test_lines_that_were_written_are_read(tmp_path_factory, written, end, has_final_end, is_packed):
    content = (end.join(written) + end * has_final_end).encode()
    path = tmp_path_factory.mktemp("lines") / "corpus"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert texts(path) == [line for line in written if line.strip()]


@given(content=st.binary(max_size=200) | st.text("\ta\r\n\0\ufeff").map(str.encode))
def test_any_bytes_are_read_equally_twice_or_refused(tmp_path_factory, content):
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
    number = content.count(b"\n") + (not content.endswith(b"\n"))
    assert report.examples == len(found)
    assert report.examples + report.blank_lines + report.bad_lines + report.too_long == number
