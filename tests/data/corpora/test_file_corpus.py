"""Fingerprints, and files that change behind the reader's back."""

import os
import re
import tracemalloc

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data import (
    BlankLineDocuments,
    JsonLinesCorpus,
    LineDocuments,
    ParallelCorpus,
    ReadingRules,
    TsvCorpus,
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("eins\tone\nzwei\ttwo\n")
    return path


def test_the_fingerprint_depends_on_content_not_on_the_path(path, tmp_path):
    first = TsvCorpus(path).fingerprint()
    assert re.fullmatch("[0-9a-f]{64}", first)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    assert TsvCorpus(copy).fingerprint() == first
    copy.write_bytes(path.read_bytes()[:-2] + b"p\n")
    assert TsvCorpus(copy).fingerprint() != first


def test_the_fingerprint_depends_on_whatever_changes_the_examples(path, tmp_path):
    other = tmp_path / "other"
    other.write_text("drei\tthree\n")
    fingerprints = [
        corpus.fingerprint()
        for corpus in (
            TsvCorpus(path),
            TsvCorpus(path, columns=("target", "source")),
            TsvCorpus(path, has_header=True),
            TsvCorpus(path, rules=ReadingRules(max_characters=3)),
            TsvCorpus(path, rules=ReadingRules(on_bad_line="skip")),
            TsvCorpus(path, rules=ReadingRules(encoding_errors="replace")),
            TsvCorpus([path, other]),
            TsvCorpus([other, path]),
            LineDocuments(path),
            BlankLineDocuments(path),
            JsonLinesCorpus(path, {"text": "a"}),
            JsonLinesCorpus(path, {"text": "b"}),
            ParallelCorpus(path, other),
            ParallelCorpus(other, path),
            ParallelCorpus([path, other], [other, path]),
            ParallelCorpus([path, path], [other, other]),
        )
    ]
    assert len(set(fingerprints)) == len(fingerprints)


@pytest.mark.parametrize("look", ["check", "fingerprint"])
def test_a_file_that_shrinks_is_noticed(path, look):
    corpus = TsvCorpus(path)
    getattr(corpus, look)()
    path.write_text("eins\tone\n")
    message = (
        f"{path}: changed since it was checked (18 bytes then, 9 now). Leave the corpus alone "
        "during a run, or start again with the new one."
    )
    for use in (list, TsvCorpus.check, TsvCorpus.fingerprint):
        with pytest.raises(UserError, match=re.escape(message)):
            use(corpus)


def test_a_file_of_the_same_size_is_noticed(path):
    corpus = TsvCorpus(path)
    corpus.check()
    path.write_text("eins\tone\nzwei\tTWO\n")
    os.utime(path, ns=(0, 0))
    with pytest.raises(UserError, match=r"checked \(the size is the same, the content is not\)"):
        list(corpus)


def test_a_file_that_was_only_touched_is_the_same(path):
    corpus = TsvCorpus(path)
    corpus.check()
    os.utime(path, ns=(0, 0))
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]


def test_a_file_that_disappears_is_noticed(path):
    corpus = TsvCorpus(path)
    corpus.check()
    path.unlink()
    with pytest.raises(UserError, match=r"checked \(it cannot be read any more: No such file"):
        list(corpus)


def test_a_file_that_disappears_before_the_check(path):
    corpus = TsvCorpus(path)
    path.unlink()
    with pytest.raises(UserError, match=r"corpus\.tsv: no such file"):
        corpus.check()


def test_a_file_that_grows_while_it_is_read_is_noticed(path):
    corpus = TsvCorpus(path)
    corpus.check()
    examples = iter(corpus)
    next(examples)
    with open(path, "a") as file:
        file.write("drei\tthree\n")
    with pytest.raises(UserError, match=r"checked \(18 bytes then, 29 now\)"):
        list(examples)


def test_either_side_is_watched(path, tmp_path):
    other = tmp_path / "other"
    other.write_text("a\nb\n")
    corpus = ParallelCorpus(path, other)
    corpus.check()
    other.write_text("a\nb\nc\n")
    with pytest.raises(UserError, match="other: changed since it was checked"):
        list(corpus)


def test_iterating_needs_no_memory_that_grows(tmp_path):
    path = tmp_path / "large"
    path.write_text("".join(f"a sentence with the number {number}\n" for number in range(100_000)))
    corpus = LineDocuments(path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in corpus) == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 3 * 2**20
    assert peak < 2**20


def test_rules_of_another_kind(path):
    with pytest.raises(ValueError, match="`rules` must be a `ReadingRules`; got 'skip'"):
        TsvCorpus(path, rules="skip")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            {"on_bad_line": "skp"},
            "`on_bad_line` must be one of 'error', 'skip'; got 'skp'. Did you",
        ),
        ({"encoding_errors": "ignore"}, "`encoding_errors` must be one of 'error', 'replace'; got"),
        ({"max_characters": 0}, "`max_characters` must be a whole number of at least 1; got 0"),
    ],
)
def test_impossible_rules(setting, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ReadingRules(**setting)


def test_several_files_share_a_name(path):
    path.write_text("\n")
    with pytest.raises(UserError, match=re.escape(f"{path} and 1 more: no examples")):
        TsvCorpus([path, path]).check()
