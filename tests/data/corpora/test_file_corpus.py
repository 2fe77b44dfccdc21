"""Files of corpora: names and patterns, opening, fingerprints, files that change."""

import os
import pathlib
import re
import tempfile
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
from keras_transformer.data.corpora.file_corpus import find_files
from tests._utils.nobody import as_nobody


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("eins\tone\nzwei\ttwo\n")
    return path


def test_fingerprint_depends_on_content_not_on_path(path, tmp_path):
    first = TsvCorpus(path).fingerprint()
    assert re.fullmatch("[0-9a-f]{64}", first)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    assert TsvCorpus(copy).fingerprint() == first
    copy.write_bytes(path.read_bytes()[:-2] + b"p\n")
    assert TsvCorpus(copy).fingerprint() != first


def test_fingerprint_depends_on_everything_that_changes_examples(path, tmp_path):
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
def test_use_of_shrunken_file_raises_with_both_sizes(path, look):
    corpus = TsvCorpus(path)
    getattr(corpus, look)()
    path.write_text("eins\tone\n")
    for use in (list, TsvCorpus.check, TsvCorpus.fingerprint):
        with pytest.raises(UserError, match=r"corpus\.tsv: changed .*18 bytes then, 9 now"):
            use(corpus)


def test_use_of_changed_file_of_same_size_raises(path):
    corpus = TsvCorpus(path)
    corpus.check()
    path.write_text("eins\tone\nzwei\tTWO\n")
    os.utime(path, ns=(0, 0))
    with pytest.raises(UserError, match="size is the same, the content is not"):
        list(corpus)


def test_touched_file_is_unchanged(path):
    corpus = TsvCorpus(path)
    corpus.check()
    os.utime(path, ns=(0, 0))
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]


def test_use_of_removed_file_raises(path):
    corpus = TsvCorpus(path)
    corpus.check()
    path.unlink()
    with pytest.raises(UserError, match=r"changed .*No such file"):
        list(corpus)


def test_check_of_file_removed_before_raises(path):
    corpus = TsvCorpus(path)
    path.unlink()
    with pytest.raises(UserError, match=r"corpus\.tsv: no such file"):
        corpus.check()


def test_reading_of_growing_file_raises_at_its_end(path):
    corpus = TsvCorpus(path)
    corpus.check()
    examples = iter(corpus)
    next(examples)
    with open(path, "a") as file:
        file.write("drei\tthree\n")
    with pytest.raises(UserError, match="18 bytes then, 29 now"):
        list(examples)


def test_change_of_either_parallel_file_raises(path, tmp_path):
    other = tmp_path / "other"
    other.write_text("a\nb\n")
    corpus = ParallelCorpus(path, other)
    corpus.check()
    other.write_text("a\nb\nc\n")
    with pytest.raises(UserError, match="other: changed"):
        list(corpus)


def test_iteration_needs_constant_memory(tmp_path):
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


def test_rules_of_another_type_are_refused(path):
    with pytest.raises(ValueError, match=r"`rules` must be a `ReadingRules`.*'skip'"):
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
def test_reading_rules_refuse_invalid_values(setting, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ReadingRules(**setting)


def test_name_of_several_files_counts_them(path):
    path.write_text("\n")
    with pytest.raises(UserError, match=re.escape(f"{path} and 1 more: no examples")):
        TsvCorpus([path, path]).check()


# Names of files.


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("part.10", "part.2", "part.1", "other"):
        pathlib.Path(name).touch()


@pytest.mark.usefixtures("files")
def test_find_files_expands_patterns_in_sorted_order():
    assert find_files("source", ["other", "part.*"]) == ("other", "part.1", "part.10", "part.2")
    assert find_files("source", "part.?") == ("part.1", "part.2")
    assert find_files("source", pathlib.Path("part.[12]")) == ("part.1", "part.2")


@pytest.mark.usefixtures("files")
def test_find_files_takes_existing_path_literally():
    pathlib.Path("part.[12]").touch()
    assert find_files("source", "part.[12]") == ("part.[12]",)


@pytest.mark.usefixtures("files")
def test_find_files_with_pattern_without_match_raises(tmp_path):
    with pytest.raises(UserError, match=re.escape("train.*.de: no file matches")) as caught:
        find_files("source", ["part.1", "train.*.de"])
    assert str(tmp_path) in str(caught.value)


@pytest.mark.usefixtures("files")
def test_find_files_without_paths_raises():
    with pytest.raises(UserError, match="`source` names no files"):
        find_files("source", [])


@pytest.mark.usefixtures("files")
def test_find_files_refuses_other_types():
    with pytest.raises(ValueError, match=r"`source` must be a path.* got 3"):
        find_files("source", ["part.1", 3])


# Opening of files.


def test_missing_file_raises_with_path_and_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^nowhere/train.txt: no such file") as caught:
        LineDocuments("nowhere/train.txt")
    assert str(tmp_path) in str(caught.value)


def test_directory_is_refused(tmp_path):
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}: is a directory.")):
        LineDocuments(tmp_path)


def test_file_as_parent_directory_raises(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "train.txt"
    with pytest.raises(UserError, match=re.escape(f"{path}: cannot be opened: Not a directory")):
        LineDocuments(path)


def test_named_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"pipe: is not a regular file"):
        LineDocuments(tmp_path / "pipe")


def test_unreadable_files_raise_permission_denied():
    # pytest's own directory is closed to nobody.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        readable, closed = os.path.join(folder, "readable"), os.path.join(folder, "closed")
        inside = os.path.join(folder, "room", "file")
        os.mkdir(os.path.dirname(inside))
        for path in (readable, closed, inside):
            with open(path, "w") as file:
                file.write("text\n")
        os.chmod(readable, 0o644)
        os.chmod(closed, 0o000)
        os.chmod(os.path.dirname(inside), 0o000)
        try:
            with as_nobody():
                assert list(LineDocuments(readable)) == [("text",)]
                for path in (closed, inside):
                    with pytest.raises(UserError, match=f"{path}: permission denied"):
                        list(LineDocuments(path))
        finally:
            os.chmod(os.path.dirname(inside), 0o700)
