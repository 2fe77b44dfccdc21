"""Pairs in parallel files."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.data import ParallelCorpus, ReadingRules


@pytest.fixture
def write(tmp_path):
    def write(**files):
        paths = {name: tmp_path / name for name in files}
        for name, content in files.items():
            paths[name].write_bytes(content)
        return paths

    return write


def test_pairs_are_in_file_order_in_every_pass(write):
    corpus = ParallelCorpus(**write(source=b"eins\nzwei\n", target=b"one\ntwo\n"))
    assert corpus.columns == ("source", "target")
    assert list(corpus) == list(corpus) == [("eins", "one"), ("zwei", "two")]


def test_simultaneous_iterations_are_independent(write):
    corpus = ParallelCorpus(**write(source=b"1\n2\n", target=b"a\nb\n"))
    assert list(zip(corpus, corpus, strict=True)) == [(("1", "a"),) * 2, (("2", "b"),) * 2]


def test_several_files_are_paired_in_order(tmp_path, write):
    write(**{"1.de": b"eins\n", "2.de": b"zwei\n", "1.en": gzip.compress(b"one\n"), "2.en": b"two"})
    corpus = ParallelCorpus(source=tmp_path / "*.de", target=[tmp_path / "*.en"])
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]


def test_different_numbers_of_files_raise(tmp_path, write):
    write(**{"1.de": b"eins\n", "2.de": b"zwei\n", "1.en": b"one\n"})
    with pytest.raises(UserError, match=r"1\.de: source files: 2, but target files: 1 "):
        ParallelCorpus(source=tmp_path / "*.de", target=tmp_path / "1.en")


@pytest.mark.parametrize(("source_lines", "target_lines"), [(3, 1_205), (1_205, 3), (0, 2), (2, 0)])
def test_different_line_counts_raise_with_both(write, source_lines, target_lines):
    paths = write(source=b"line\n" * source_lines, target=b"line\n" * target_lines)
    message = (
        f"{paths['source']}: line count {source_lines:,}, but {paths['target']}: line count "
        f"{target_lines:,}."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        ParallelCorpus(**paths).check()
    with pytest.raises(UserError, match=re.escape(message)):
        list(ParallelCorpus(**paths))


def test_different_line_counts_of_one_pair_of_files_raise(tmp_path, write):
    # The totals agree, the files do not.
    write(**{"1.de": b"1\n2\n", "2.de": b"3\n", "1.en": b"1\n", "2.en": b"2\n3\n"})
    with pytest.raises(UserError, match=r"1\.de: line count 2, but .*1\.en: line count 1\."):
        ParallelCorpus(source=tmp_path / "*.de", target=tmp_path / "*.en").check()


def test_pair_with_blank_side_is_skipped(write):
    corpus = ParallelCorpus(**write(source=b"1\n\n3\n \n5\n", target=b"a\nb\n\n\ne\n"))
    assert list(corpus) == [("1", "a"), ("5", "e")]
    report = corpus.check()
    assert report.blank_lines == 3
    assert "Pairs with a blank side, skipped: 3." in report.warnings


@pytest.mark.parametrize("bad_side", ["source", "target"])
def test_bad_side_raises_or_pair_is_skipped(write, bad_side):
    files = {"source": b"1\n2\n3\n", "target": b"a\nb\nc\n"}
    files[bad_side] = files[bad_side][:2] + b"\xff\n" + files[bad_side][4:]
    paths = write(**files)
    with pytest.raises(UserError, match=re.escape(f"{paths[bad_side]}:2:1: byte 0xFF is not")):
        ParallelCorpus(**paths).check()
    corpus = ParallelCorpus(**paths, rules=ReadingRules(on_bad_line="skip"))
    assert list(corpus) == [("1", "a"), ("3", "c")]
    assert corpus.check().bad_lines == 1


def test_pair_with_long_side_is_skipped(write):
    paths = write(source=b"1\n222222\n3\n\n", target=b"a\nb\ncccccc\ndddddd\n")
    corpus = ParallelCorpus(**paths, rules=ReadingRules(max_characters=5))
    assert list(corpus) == [("1", "a")]
    report = corpus.check()
    assert (report.too_long, report.blank_lines) == (3, 0)


def test_same_file_on_both_sides_gives_warning(tmp_path, write):
    path = write(both=b"one\ntwo\n")["both"]
    link = tmp_path / "link"
    link.symlink_to(path)
    report = ParallelCorpus(source=path, target=link).check()
    assert report.identical_sides == 2
    same_file, same_text = report.warnings
    assert f"{path} and {link} are the same file" in same_file
    assert same_text.startswith("2 of 2 pairs")


def test_identical_files_give_warning(write):
    report = ParallelCorpus(**write(source=b"one\ntwo\n", target=b"one\ntwo\n")).check()
    assert [text for text in report.warnings if "same text on both sides" in text]


def test_missing_file_raises_at_once(tmp_path, write):
    path = write(source=b"one\n")["source"]
    with pytest.raises(UserError, match=r"train\.en: no such file"):
        ParallelCorpus(source=path, target=tmp_path / "train.en")


side = st.lists(st.text("ab \n\r\u2028\x85", max_size=4), max_size=6).map("".join)


@given(source=side, target=side)
def test_pairs_never_shift(tmp_path_factory, source, target):
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "source").write_bytes(source.encode())
    (folder / "target").write_bytes(target.encode())
    rules = ReadingRules(on_bad_line="skip")
    corpus = ParallelCorpus(folder / "source", folder / "target", rules)
    source_lines, target_lines = (text.removesuffix("\n").split("\n") for text in (source, target))
    if (len(source_lines) if source else 0) != (len(target_lines) if target else 0):
        with pytest.raises(UserError, match="line count"):
            list(corpus)
        return
    all_pairs = {
        (first.removesuffix("\r"), second.removesuffix("\r"))
        for first, second in zip(source_lines, target_lines, strict=True)
    }
    assert set(corpus) <= all_pairs
