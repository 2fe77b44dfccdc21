"""What is a line, and what is no text: the rules for files, pipes and terminals alike."""

import gzip
import io
import os
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.text_file import TOO_LONG, Tally, decode_lines, unpack

plain_and_gzip = pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])


def lines(content, tally=None, encoding_errors="error", max_characters=100):
    stream = unpack(io.BufferedReader(io.BytesIO(content)))
    yield from decode_lines(stream, "file", tally or Tally(), encoding_errors, max_characters)


@plain_and_gzip
def test_one_byte_order_mark_is_no_text(pack):
    content = pack(b"\xef\xbb\xbf\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(lines(content)) == ["\ufeffone", "\ufefftwo"]
    assert list(lines(pack(b"\xef\xbb\xbf"))) == []


@pytest.mark.parametrize(
    ("mark", "codec", "message"),
    [
        (b"\xff\xfe", "utf-16-le", "looks like UTF-16 (BOM FF FE). Turn it into UTF-8: iconv"),
        (b"\xfe\xff", "utf-16-be", "looks like UTF-16 (BOM FE FF). Turn it into UTF-8: iconv"),
        (b"\xff\xfe\0\0", "utf-32-le", "looks like UTF-32 (BOM FF FE 00 00)."),
        (b"\0\0\xfe\xff", "utf-32-be", "looks like UTF-32 (BOM 00 00 FE FF)."),
        (b"", "utf-16-le", "looks like UTF-16LE without a BOM (25 of the first 50 bytes are NUL)."),
        (b"", "utf-16-be", "looks like UTF-16BE without a BOM (25 of the first 50 bytes are NUL)."),
    ],
)
@plain_and_gzip
@pytest.mark.parametrize("encoding_errors", ["error", "replace"])
def test_other_encodings(mark, codec, message, pack, encoding_errors):
    content = pack(mark + "Good day\nIt is raining.\n\n".encode(codec))
    with pytest.raises(UserError, match=f"^{re.escape(f'file: {message}')}"):
        next(lines(content, encoding_errors=encoding_errors))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_the_last_line_may_end_with_the_stream(end):
    assert list(lines(b"one\r\n\ntwo" + end)) == ["one", "", "two"]


def test_separators_of_unicode_do_not_split():
    line = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
    assert list(lines(f"{line}\nnext\n".encode())) == [line, "next"]


def test_a_carriage_return_inside_a_line():
    one, bad, four = lines(b"one\ntwo\rthree\nfour\n")
    assert (one, four) == ("one", "four")
    assert bad.problem == "file:2: a carriage return inside the line (line ends of an old Mac?)"
    assert bad.remedy == "Turn them into line feeds: tr '\\r' '\\n' < OLD > NEW"


def test_bytes_that_are_not_utf8_are_named():
    one, bad, three = lines("one\ngrün ".encode() + b"\xff\nthree")
    assert (one, three) == ("one", "three")
    assert bad.problem == "file:2:7: byte 0xFF is not UTF-8"
    assert bad.remedy == (
        'Turn the text into UTF-8, or put U+FFFD there with encoding_errors="replace"'
    )


def test_bytes_that_are_not_utf8_are_replaced_and_counted():
    # The second line holds a U+FFFD of its own, and an encoded surrogate (three bytes).
    content = b"a\xffb\n\xef\xbf\xbd \xed\xa0\x80\n\xe4\xb8\n"
    tally = Tally()
    found = list(lines(content, tally, encoding_errors="replace"))
    assert found == ["a\ufffdb", "\ufffd \ufffd\ufffd\ufffd", "\ufffd"]
    assert tally.replacements == 5


def test_the_rest_of_a_long_line_is_skipped_when_the_next_is_wanted():
    content = io.BytesIO(b"one\n" + b"x" * 1_000_000 + b"\ntwo")
    stream = io.BufferedReader(content)
    tally = Tally()
    found = decode_lines(stream, "file", tally, "error", 10)
    assert (next(found), next(found)) == ("one", TOO_LONG)
    # Of a pipe, the rest may be long in coming.
    assert stream.tell() == 4 + 43
    assert (next(found), tally.place) == ("two", "file:3")


def test_damaged_gzip():
    content = gzip.compress(os.urandom(5000).hex().encode() + b"\n")
    message = r"^file: gzip is damaged somewhere after line 0 \(.+\)\. Copy or download the file "
    with pytest.raises(UserError, match=message):
        list(lines(content[:-8] + bytes(4) + content[-4:]))
