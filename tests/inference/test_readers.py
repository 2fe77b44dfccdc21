"""Readers of lines and sentences from files, pipes and terminals."""

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
from keras_transformer.data import DependencyTree
from keras_transformer.inference import SentenceReader
from keras_transformer.inference.readers import (
    MAXIMUM_CHARACTERS,
    LineReader,
    as_sources,
    count_sources,
    require_parallel,
)
from tests.inference.shouting_model import ShoutingModel


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


def test_line_reader_keeps_blank_lines(write):
    assert read(write(b"\none\n\n  \ntwo\n\n")) == ["", "one", "", "  ", "two", ""]


def test_line_reader_of_an_empty_file_has_no_lines(write):
    assert read(write(b"")) == []
    assert read(write(b"\n")) == [""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"text")[:-9], "gzip ends early, "),
        (
            "Guten Tag\n".encode("utf-16"),
            "looks like UTF-16 (BOM FF FE). ",
        ),
        ("Tag\n".encode("utf-16-le"), "looks like UTF-16LE without a BOM (4 of the first 8 bytes"),
    ],
    ids=["cut gzip", "UTF-16", "UTF-16 without a mark"],
)
@pytest.mark.parametrize("encoding_errors", ["error", "replace"])
def test_line_reader_of_other_files_raises_an_error(write, content, message, encoding_errors):
    path = write(content)
    with pytest.raises(UserError, match=re.escape(f"{path}: {message}")):
        read(path, encoding_errors=encoding_errors)


def test_line_reader_of_a_nul_byte_raises_an_error(write):
    # UTF-16 without a byte order mark; too few NUL bytes to recognize the encoding at once.
    path = write("你好\n".encode("utf-16-le"))
    message = f"{path}:2:1: a NUL byte"
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with pytest.raises(UserError, match=r"lines\.txt:1:6: a NUL byte"):
        read(write("grün\0\n".encode()))


def test_line_reader_names_or_replaces_invalid_utf8(write):
    path = write("one\ngrün ".encode() + b"\xff\nthree \0 \xef\xbf\xbd\n")
    message = f"{path}:2:7: byte 0xFF is not UTF-8. "
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with LineReader(path, encoding_errors="replace") as lines:
        assert list(lines) == ["one", "grün \ufffd", "three \ufffd \ufffd"]
        # The last U+FFFD is in the file itself.
        assert lines.replaced == 2


def test_line_reader_of_a_carriage_return_inside_a_line_raises_an_error(write):
    path = write(b"one\ntwo\rthree\n")
    message = f"{path}:2: a carriage return inside the line"
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)


@pytest.mark.parametrize("letter", ["x", "😀"])
def test_line_reader_of_a_too_long_line_raises_an_error(write, letter):
    longest = letter * MAXIMUM_CHARACTERS
    assert read(write(f"{longest}\r\nnext".encode())) == [longest, "next"]
    path = write(f"one\n{longest}{letter}\n".encode())
    message = f"{path}:2: longer than 1,000,000 characters"
    with pytest.raises(UserError, match=re.escape(message)):
        read(path)
    with pytest.raises(UserError, match=re.escape(message)):
        read(path, encoding_errors="replace")


def test_line_reader_of_missing_file_and_directory_raises_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^no\.txt: no such file \(the current directory is /"):
        LineReader("no.txt")
    with pytest.raises(UserError, match=r"^\.: is a directory\."):
        LineReader(".")


def test_line_reader_with_unknown_encoding_errors_raises_an_error(write):
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
def test_line_reader_returns_the_written_lines(tmp_path_factory, lines, end, is_packed):
    content = "".join(line + end for line in lines).encode()
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert read(path) == lines
    assert count_sources(path) == len(lines)


@given(content=st.binary(max_size=60) | st.text("a\r\n\0\ufeff\u2028").map(str.encode))
def test_line_reader_of_any_bytes_returns_every_line_or_raises_an_error(tmp_path_factory, content):
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


def test_must_wait_of_a_pipe_tells_whether_the_next_line_is_available(pipe):
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


def test_must_wait_is_true_for_half_a_line(pipe):
    path, writer = pipe
    with LineReader(path) as lines:
        writer.write(b"one\ntw")
        assert next(lines) == "one"
        assert lines.must_wait()
        writer.write(b"o\n")
        assert next(lines) == "two"


def test_line_reader_of_a_pipe_skips_a_byte_order_mark(pipe):
    path, writer = pipe
    with LineReader(path) as lines:
        writer.write(b"\xef\xbb\xbfone\n")
        assert next(lines) == "one"
        assert lines.must_wait()


@pytest.fixture
def closed_pipe(tmp_path):
    """Returns a function that writes into a named pipe, closes it and returns its path."""

    def make(content):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        # Neither end can be opened before the other.
        threading.Thread(target=path.write_bytes, args=[content]).start()
        return path

    return make


def test_line_reader_of_gzip_in_a_pipe(closed_pipe):
    with LineReader(closed_pipe(gzip.compress(b"one\ntwo\n"))) as lines:
        assert next(lines) == "one"
        assert not lines.must_wait()
        assert list(lines) == ["two"]


def test_must_wait_is_false_at_the_end_of_a_pipe(closed_pipe):
    with LineReader(closed_pipe(b"one\ntwo")) as lines:
        assert next(lines) == "one"
        assert not lines.must_wait()
        assert list(lines) == ["two"]


def test_line_reader_of_a_terminal():
    keyboard, screen = pty.openpty()
    tty.setraw(screen)
    with LineReader(os.ttyname(screen)) as lines:
        assert lines.is_terminal
        os.write(keyboard, b"typed\n")
        assert next(lines) == "typed"
        assert lines.must_wait()
    os.close(keyboard)
    os.close(screen)


def test_must_wait_of_a_file_is_false(write):
    with LineReader(write(b"one\ntwo\n")) as lines:
        assert (next(lines), lines.must_wait(), lines.is_terminal) == ("one", False, False)


@pytest.fixture
def standard_input():
    """Returns a function that makes a file descriptor the standard input of this process."""
    kept = os.dup(0)
    yield lambda descriptor: os.dup2(descriptor, 0)
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_line_reader_of_standard_input_from_a_file(write, standard_input, pack):
    with open(write(pack(b"one\ntwo")), "rb") as file:
        standard_input(file.fileno())
    with LineReader() as lines:
        assert (lines.name, next(lines), lines.must_wait()) == ("standard input", "one", False)
        assert list(lines) == ["two"]


def test_line_reader_of_standard_input_from_a_pipe(standard_input):
    reading_end, writing_end = os.pipe()
    standard_input(reading_end)
    os.close(reading_end)
    with LineReader() as lines:
        os.write(writing_end, b"one\n")
        assert (next(lines), lines.must_wait()) == ("one", True)
        os.close(writing_end)
        assert list(lines) == []


def test_line_reader_of_unreadable_input_raises_an_error(tmp_path, standard_input, monkeypatch):
    directory = os.open(tmp_path, os.O_RDONLY)
    standard_input(directory)
    os.close(directory)
    with pytest.raises(UserError) as caught:
        LineReader()
    assert str(caught.value) == (
        "standard input: cannot be read: Is a directory. Give a file with `input`."
    )
    # As Python does when it is started with `<&-`.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError) as caught:
        LineReader()
    assert str(caught.value) == "standard input: is closed. Give a file with `input`."


# Sentences.


DOGS = DependencyTree(("Hunde", "schlafen"), heads=(2, 0)).conllu
HOME = "# text = Er geht\n" + DependencyTree(("Er", "geht"), heads=(2, 0)).conllu
FILE = f"{DOGS}\n\n{HOME}\n \n\nkein Satz\nnoch einer\n{DOGS}"


def sentences(path, **settings):
    with LineReader(path) as lines:
        return list(SentenceReader(lines, **settings))


def test_sentence_reader_splits_at_blank_lines(write):
    path = write(FILE.encode(), "a.conllu")
    assert sentences(path) == [DOGS, HOME, "kein Satz", "noch einer", DOGS]
    as_text = ["Hunde schlafen", "Er geht", "kein Satz", "noch einer", "Hunde schlafen"]
    assert sentences(path, is_text=True) == as_text
    packed = write(gzip.compress(FILE.replace("\n", "\r\n").encode()), "a.conllu.gz")
    assert sentences(packed) == sentences(path)
    assert count_sources(packed) == count_sources(path) == 5
    assert sentences(write(b"", "empty.conllu")) == []


def test_sentence_reader_returns_a_sentence_before_the_next_arrives():
    read, written = os.pipe()
    with os.fdopen(written, "w") as pipe, LineReader(f"/dev/fd/{read}") as lines:
        found = SentenceReader(lines)
        assert (found.is_terminal, found.name) == (False, f"/dev/fd/{read}")
        for sentence in (DOGS, HOME):
            pipe.write(sentence + "\n\n")
            pipe.flush()
            assert next(found) == sentence
            assert found.must_wait()
        pipe.write(DOGS)
        pipe.close()
        assert list(found) == [DOGS]
    os.close(read)


@pytest.mark.parametrize("reads_trees", [False, True])
def test_as_sources_depends_on_file_name_and_model(reads_trees, write):
    """Models that read no trees get the text of CoNLL-U files."""
    model = ShoutingModel()
    model.reads_trees = reads_trees
    text = "Hunde schlafen"
    for name, expected in [
        ("a.conllu", [DOGS if reads_trees else text]),
        ("a.txt", DOGS.split("\n")),
        (None, [DOGS] if reads_trees else DOGS.split("\n")),
    ]:
        path = write(f"{DOGS}\n".encode(), name or "input")
        with LineReader(path) as lines:
            assert list(as_sources(lines, name and path, model)) == expected


def test_require_parallel_counts_lines(write):
    two, three = write(b"1\n2\n", "two"), write(b"1\n2\n3\n", "three")
    assert require_parallel([two, write(b"a\nb", "b")]) == 2
    message = f"{two}: line count 2, but {three}: line count 3"
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([two, three])
    empty = write(b"", "empty")
    message = f"{empty}: no lines"
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([empty, empty])


def test_require_parallel_counts_sentences_of_conllu(write):
    parsed = write(f"{DOGS}\n\n{HOME}\n\n".encode(), "a.conllu")
    assert require_parallel([parsed, write(b"1\n2\n", "two")]) == 2
    one = write(b"1", "one")
    message = f"{parsed}: sentence count 2, but {one}: line count 1"
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([parsed, one])
    empty = write(b"\n\n", "empty.conllu")
    with pytest.raises(UserError, match=r"empty\.conllu: no sentences"):
        require_parallel([empty])
