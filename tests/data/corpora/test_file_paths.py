"""Which files a path, a pattern or a list of them means."""

import pathlib
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.data.corpora.file_corpus import find_files


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("part.10", "part.2", "part.1", "other"):
        pathlib.Path(name).touch()


def test_patterns_expand_in_sorted_order_in_place():
    assert find_files("source", ["other", "part.*"]) == ("other", "part.1", "part.10", "part.2")
    assert find_files("source", "part.?") == ("part.1", "part.2")
    assert find_files("source", pathlib.Path("part.[12]")) == ("part.1", "part.2")


def test_an_existing_path_is_taken_literally():
    pathlib.Path("part.[12]").touch()
    assert find_files("source", "part.[12]") == ("part.[12]",)


def test_a_pattern_that_matches_nothing(tmp_path):
    message = (
        f"train.*.de: no file matches this pattern (the current directory is {tmp_path}). "
        "Check the pattern."
    )
    with pytest.raises(UserError, match=re.escape(message)):
        find_files("source", ["part.1", "train.*.de"])


def test_no_paths_at_all():
    with pytest.raises(UserError, match="`source` names no files; give at least one path"):
        find_files("source", [])


def test_what_is_no_path():
    with pytest.raises(ValueError, match="`source` must be a path or a list of paths; got 3 among"):
        find_files("source", ["part.1", 3])
