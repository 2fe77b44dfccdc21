"""Sentences in CoNLL-U among lines, and files that are read by one or the other."""

import gzip
import os
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import DependencyTree
from keras_transformer.inference import LineReader, SentenceReader
from keras_transformer.inference.readers import as_sources, count_sources, require_parallel
from tests.inference.shouting_model import ShoutingModel

DOGS = DependencyTree(("Hunde", "schlafen"), heads=(2, 0)).conllu
HOME = "# text = Er geht\n" + DependencyTree(("Er", "geht"), heads=(2, 0)).conllu
FILE = f"{DOGS}\n\n{HOME}\n \n\nkein Satz\nnoch einer\n{DOGS}"


@pytest.fixture
def write(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def sentences(path, **settings):
    with LineReader(path) as lines:
        return list(SentenceReader(lines, **settings))


def test_blank_lines_end_sentences_and_plain_lines_are_their_own(write):
    path = write(FILE.encode(), "a.conllu")
    assert sentences(path) == [DOGS, HOME, "kein Satz", "noch einer", DOGS]
    as_text = ["Hunde schlafen", "Er geht", "kein Satz", "noch einer", "Hunde schlafen"]
    assert sentences(path, is_text=True) == as_text
    packed = write(gzip.compress(FILE.replace("\n", "\r\n").encode()), "a.conllu.gz")
    assert sentences(packed) == sentences(path)
    assert count_sources(packed) == count_sources(path) == 5
    assert sentences(write(b"", "empty.conllu")) == []


def test_a_sentence_is_given_before_the_next_one_comes():
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
def test_who_is_given_what(reads_trees, write):
    """CoNLL-U by its name, as text for a model that reads no trees; and standard input."""
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


def test_parallel_files(write):
    two, three = write(b"1\n2\n", "two"), write(b"1\n2\n3\n", "three")
    assert require_parallel([two, write(b"a\nb", "b")]) == 2
    message = (
        f"{two}: line count 2, but {three}: line count 3. Line n of one must go with line n of the "
        "other: find what is missing."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([two, three])
    empty = write(b"", "empty")
    message = f"{empty}: no lines. Check that this is the right file."
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([empty, empty])


def test_sentences_beside_lines(write):
    parsed = write(f"{DOGS}\n\n{HOME}\n\n".encode(), "a.conllu")
    assert require_parallel([parsed, write(b"1\n2\n", "two")]) == 2
    one = write(b"1", "one")
    message = f"{parsed}: sentence count 2, but {one}: line count 1. Sentence n of one must go with"
    with pytest.raises(UserError, match=re.escape(message)):
        require_parallel([parsed, one])
    empty = write(b"\n\n", "empty.conllu")
    with pytest.raises(UserError, match=r"empty\.conllu: no sentences\. Check that this is"):
        require_parallel([empty])
