"""A tokenizer's directory: whole or not there, and refused when it is not what was written."""

import json
import os
import pathlib
import resource

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.text import ByteTokenizer, WordPieceTokenizer, load_tokenizer


@pytest.fixture
def directory(tmp_path, tokenizers):
    tokenizers["bpe"].save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_a_directory_holds_the_model_and_its_description(directory, tokenizers):
    assert sorted(os.listdir(directory)) == ["sentencepiece.model", "tokenizer.json"]
    assert (directory / "sentencepiece.model").read_bytes() == tokenizers["bpe"].to_bytes()
    assert json.loads((directory / "tokenizer.json").read_text()) == {
        "name": "sentencepiece",
        "settings": {},
        "version": 1,
        "file": "sentencepiece.model",
        "sha256": tokenizers["bpe"].hash,
    }
    assert os.listdir(directory.parent) == ["tokenizer"]


def test_one_flipped_bit_is_noticed(directory):
    path = directory / "sentencepiece.model"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"sentencepiece\.model: damaged, the sha256 .* is another"):
        load_tokenizer(directory)


def test_a_truncated_file_is_noticed(directory):
    path = directory / "sentencepiece.model"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"sentencepiece\.model: damaged"):
        load_tokenizer(directory)


def test_a_changed_setting_is_noticed(tmp_path):
    WordPieceTokenizer(["a", "b"], lowercase=False).save(tmp_path / "tokenizer")
    path = tmp_path / "tokenizer" / "tokenizer.json"
    path.write_text(path.read_text().replace("false", "true"))
    with pytest.raises(UserError, match="damaged, the sha256"):
        load_tokenizer(tmp_path / "tokenizer")


def test_what_is_missing_is_named(directory, tmp_path):
    (directory / "sentencepiece.model").unlink()
    with pytest.raises(UserError, match=r"tokenizer: holds no tokenizer, sentencepiece\.model is"):
        load_tokenizer(directory)
    with pytest.raises(UserError, match=r"nowhere: holds no tokenizer, tokenizer\.json is missing"):
        load_tokenizer(tmp_path / "nowhere")
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match=r"file: holds no tokenizer, tokenizer\.json is missing"):
        load_tokenizer(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"tokenizer\.json: damaged, not JSON"),
        ('{"name": "bytes"', r"tokenizer\.json: damaged, not JSON"),
        ("[]", r"not the description of a tokenizer, 'name' is missing or wrong"),
        (
            '{"name": "bytes"}',
            r"description of a tokenizer, 'settings' is missing or wrong",
        ),
    ],
)
def test_a_foreign_description_is_refused(tmp_path, text, expected):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match=expected):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("version", 2, "in version 2 of the format, but this package reads version 1"),
        ("file", "../other", r"'file' must be a name in the same directory; got '\.\./other'"),
        ("file", "/etc/passwd", "'file' must be a name in the same directory"),
        ("sha256", "0" * 64, "damaged"),
    ],
)
def test_a_description_that_was_tampered_with_is_refused(directory, key, value, expected):
    path = directory / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(UserError, match=expected):
        load_tokenizer(directory)


def test_an_unknown_kind_is_named_with_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(ByteTokenizer, "registered_name", "syllables")
    ByteTokenizer().save(tmp_path / "tokenizer")
    with pytest.raises(UserError, match=r"no tokenizer named 'syllables'; known are bytes, sente"):
        load_tokenizer(tmp_path / "tokenizer")


def test_what_exists_is_never_overwritten(directory, tmp_path, tokenizers):
    with pytest.raises(UserError, match=r"tokenizer: exists already\. Choose another directory"):
        tokenizers["unigram"].save(directory)
    assert load_tokenizer(directory).hash == tokenizers["bpe"].hash
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match="file: exists already"):
        tokenizers["bytes"].save(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    tokenizers["bytes"].save(tmp_path / "empty")
    assert load_tokenizer(tmp_path / "empty").vocabulary_size == 260


def test_a_full_disk_leaves_nothing_behind(tmp_path, tokenizers):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            tokenizers["bpe"].save(tmp_path / "tokenizer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_relative_paths_and_odd_names_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ByteTokenizer().save("mit Leerzeichen ü")
    assert load_tokenizer(pathlib.Path("mit Leerzeichen ü")).vocabulary_size == 260
