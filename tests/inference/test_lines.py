"""Lines from files, pipes and terminals: none is lost, none is made."""

import gzip
import os
import pty
import re
import sys
import threading
import tty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.inference.readers import MOST_CHARACTERS, LineReader, count_sources


@pytest.fixture
def write(tmp_path):
    def write(content, name="lines.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def read(path, **settings):
    with LineReader(path, **settings) as lines:
        return list(lines)


def test_blank_lines_are_lines(write):
    assert read(write(b"\none\n\n  \ntwo\n\n")) == ["", "one", "", "  ", "two", ""]


def test_an_empty_file_has_no_lines(write):
    assert read(write(b"")) == []
    assert read(write(b"\n")) == [""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"text")[:-9], "gzip ends early, somewhere after line 0. The file is cut"),
        (
            "Guten Tag\n".encode("utf-16"),
            "looks like UTF-16 (BOM FF FE). Turn it into UTF-8: ",
        ),
        ("Tag\n".encode("utf-16-le"), "looks like UTF-16LE without a BOM (4 of the first 8 bytes"),
    ],
    ids=["cut gzip", "UTF-16", "UTF-16 without a mark"],
)
@pytest.mark.parametrize("encoding_errors", ["error", "replace"])
def test_files_that_are_no_text_as_a_whole(write, content, message, encoding_errors):
    path = write(content)
    with pytest.raises(UserError, match=re.escape(f"{path}: {message}")):
        read(path, encoding_errors=encoding_errors)


def test_a_nul_byte(write):
    # UTF-16 without a mark that has too few of them to be told from UTF-8 at once.
    path = write("你好\n".encode("utf-16-le"))
    message = (
        f"{path}:2:1: a NUL byte; this is UTF-16, or no text at all. Turn the text into UTF-8, or "
        'put U+FFFD there with encoding_errors="replace".'
    )
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with pytest.raises(UserError, match=r"lines\.txt:1:6: a NUL byte"):
        read(write("grün\0\n".encode()))


def test_bytes_that_are_not_utf8_are_named_or_replaced(write):
    path = write("one\ngrün ".encode() + b"\xff\nthree \0 \xef\xbf\xbd\n")
    message = (
        f"{path}:2:7: byte 0xFF is not UTF-8. Turn the text into UTF-8, or put U+FFFD there with "
        'encoding_errors="replace".'
    )
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with LineReader(path, encoding_errors="replace") as lines:
        assert list(lines) == ["one", "grün \ufffd", "three \ufffd \ufffd"]
        # The last one stands in the file itself.
        assert lines.replaced == 2


def test_a_carriage_return_inside_a_line(write):
    path = write(b"one\ntwo\rthree\n")
    message = f"{path}:2: a carriage return inside the line (line ends of an old Mac?). Turn them"
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)


@pytest.mark.parametrize("letter", ["x", "😀"])
def test_a_line_without_an_end(write, letter):
    longest = letter * MOST_CHARACTERS
    assert read(write(f"{longest}\r\nnext".encode())) == [longest, "next"]
    path = write(f"one\n{longest}{letter}\n".encode())
    message = f"{path}:2: longer than 1,000,000 characters. Put each sentence or paragraph on a"
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with pytest.raises(UserError, match=re.escape(message)):
        read(path, encoding_errors="replace")


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^no\.txt: no such file \(the current directory is /"):
        LineReader("no.txt")
    with pytest.raises(UserError, match=r"^\.: is a directory\."):
        LineReader(".")


def test_unknown_ways_to_treat_errors(write):
    with pytest.raises(ValueError, match="`encoding_errors` must be one of 'error', 'replace'"):
        LineReader(write(b""), encoding_errors="ignore")


line_texts = st.text(
    st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20
).filter(lambda text: not text.startswith("\ufeff"))


@given(
    lines=st.lists(line_texts, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    is_packed=st.booleans(),
)
def test_what_is_written_is_read(tmp_path_factory, lines, end, is_packed):
    content = "".join(line + end for line in lines).encode()
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert read(path) == lines
    assert count_sources(path) == len(lines)


@given(content=st.binary(max_size=60) | st.text("a\r\n\0\ufeff\u2028").map(str.encode))
def test_any_bytes_are_kept_line_by_line_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(content)
    try:
        found = read(path, encoding_errors="replace")
    except UserError:
        return
    has_open_end = content.removeprefix(b"\xef\xbb\xbf") and not content.endswith(b"\n")
    assert len(found) == content.count(b"\n") + bool(has_open_end)


# Pipes and terminals.


@pytest.fixture
def pipe(tmp_path):
    """A named pipe: the path to read from, and a file to write to that flushes every write."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Open for both, so that neither end waits for the other.
    with open(os.open(path, os.O_RDWR), "wb", buffering=0) as writer:
        yield path, writer


def test_a_pipe_says_when_the_next_line_has_to_be_waited_for(pipe):
    path, writer = pipe
    with LineReader(path) as lines:
        writer.write(b"one\ntwo\n")
        assert next(lines) == "one"
        assert not lines.must_wait()
        assert next(lines) == "two"
        assert lines.must_wait()
        writer.write(b"three\n")
        assert not lines.must_wait()
        assert next(lines) == "three"


def test_half_a_line_in_a_pipe_is_no_line(pipe):
    path, writer = pipe
    with LineReader(path) as lines:
        writer.write(b"one\ntw")
        assert next(lines) == "one"
        assert lines.must_wait()
        writer.write(b"o\n")
        assert next(lines) == "two"


def test_a_byte_order_mark_does_not_make_a_pipe_wait(pipe):
    path, writer = pipe
    with LineReader(path) as lines:
        writer.write(b"\xef\xbb\xbfone\n")
        assert next(lines) == "one"
        assert lines.must_wait()


@pytest.fixture
def closed_pipe(tmp_path):
    """A function that returns the path of a named pipe into which somebody writes, and goes."""

    def make(content):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        # Neither end can be opened before the other.
        threading.Thread(target=path.write_bytes, args=[content]).start()
        return path

    return make


def test_gzip_in_a_pipe(closed_pipe):
    with LineReader(closed_pipe(gzip.compress(b"one\ntwo\n"))) as lines:
        assert next(lines) == "one"
        assert not lines.must_wait()
        assert list(lines) == ["two"]


def test_the_end_of_a_pipe_is_not_waited_for(closed_pipe):
    with LineReader(closed_pipe(b"one\ntwo")) as lines:
        assert next(lines) == "one"
        assert not lines.must_wait()
        assert list(lines) == ["two"]


def test_a_terminal():
    keyboard, screen = pty.openpty()
    tty.setraw(screen)
    with LineReader(os.ttyname(screen)) as lines:
        assert lines.is_terminal
        os.write(keyboard, b"typed\n")
        assert next(lines) == "typed"
        assert lines.must_wait()
    os.close(keyboard)
    os.close(screen)


def test_files_never_wait(write):
    with LineReader(write(b"one\ntwo\n")) as lines:
        assert (next(lines), lines.must_wait(), lines.is_terminal) == ("one", False, False)


@pytest.fixture
def standard_input():
    """A function that makes a file descriptor this process' standard input."""
    kept = os.dup(0)
    yield lambda descriptor: os.dup2(descriptor, 0)
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input_from_a_file(write, standard_input, pack):
    with open(write(pack(b"one\ntwo")), "rb") as file:
        standard_input(file.fileno())
    with LineReader() as lines:
        assert (lines.name, next(lines), lines.must_wait()) == ("standard input", "one", False)
        assert list(lines) == ["two"]


def test_standard_input_from_a_pipe(standard_input):
    reading_end, writing_end = os.pipe()
    standard_input(reading_end)
    os.close(reading_end)
    with LineReader() as lines:
        os.write(writing_end, b"one\n")
        assert (next(lines), lines.must_wait()) == ("one", True)
        os.close(writing_end)
        assert list(lines) == []


def test_standard_input_that_cannot_be_read(tmp_path, standard_input, monkeypatch):
    directory = os.open(tmp_path, os.O_RDONLY)
    standard_input(directory)
    os.close(directory)
    with pytest.raises(UserError) as caught:
        LineReader()
    assert str(caught.value) == (
        "standard input: cannot be read: Is a directory. Give a file with `input`."
    )
    # What Python does when it is started with `<&-`.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError) as caught:
        LineReader()
    assert str(caught.value) == "standard input: is closed. Give a file with `input`."
