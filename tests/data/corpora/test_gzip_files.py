"""Packed files: whole, cut short, damaged, or named otherwise."""

import gzip
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import LineDocuments


def texts(path):
    return [text for (text,) in LineDocuments(path)]


@pytest.fixture
def write(tmp_path):
    def write(content, name="corpus.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_truncated_gzip(write, share):
    lines = b"".join(b"line %d %d\n" % (number, number**7) for number in range(20_000))
    packed = gzip.compress(lines)
    path = write(packed[: int(len(packed) * share)], "train.gz")
    with pytest.raises(UserError) as caught:
        texts(path)
    found = re.fullmatch(
        re.escape(str(path)) + r": gzip ends early, somewhere after line (\d+)\. The file "
        r"is cut short: copy or download it again\.",
        str(caught.value),
    )
    assert found
    assert int(found[1]) < 20_000


def test_gzip_cut_in_its_header(write):
    path = write(gzip.compress(b"text\n")[:5], "train.gz")
    with pytest.raises(
        UserError, match=re.escape(f"{path}: gzip ends early, somewhere after line 0")
    ):
        LineDocuments(path)


def test_damaged_gzip(write):
    packed = bytearray(gzip.compress(b"".join(b"%d\n" % number**5 for number in range(9_000))))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(UserError, match=r"train\.gz: gzip is damaged somewhere after line \d+"):
        texts(write(bytes(packed), "train.gz"))


def test_text_after_a_gzip_member_is_not_ignored(write):
    path = write(gzip.compress(b"one\n") + b"two\n", "train.gz")
    with pytest.raises(UserError, match=r"train\.gz: gzip is damaged somewhere after line \d+"):
        texts(path)


def test_all_members_of_a_gzip_file_are_read(write):
    path = write(gzip.compress(b"one\ntw") + gzip.compress(b"") + gzip.compress(b"o\nthree\n"))
    assert texts(path) == ["one", "two", "three"]


def test_the_content_tells_whether_a_file_is_gzip(write):
    assert texts(write(b"plain\n", "plain.gz")) == ["plain"]
    assert texts(write(gzip.compress(b"packed\n"), "packed.txt")) == ["packed"]
