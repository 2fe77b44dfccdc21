"""Directories of tokenizers: written atomically, and refused if damaged or foreign."""

import hashlib
import json
import os
import pathlib
import re
import resource

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.text import (
    ByteTokenizer,
    SentencePieceTokenizer,
    SpecialIds,
    WordPieceTokenizer,
    load_tokenizer,
)


@pytest.fixture
def directory(tmp_path, tokenizers):
    tokenizers["bpe"].save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def test_save_writes_model_and_description(directory, tokenizers):
    assert sorted(os.listdir(directory)) == ["sentencepiece.model", "tokenizer.json"]
    assert (directory / "sentencepiece.model").read_bytes() == tokenizers["bpe"].to_bytes()
    assert json.loads((directory / "tokenizer.json").read_text()) == {
        "name": "sentencepiece",
        "settings": {},
        "special_ids": {"padding": 0, "unknown": 1, "start": 2, "end": 3},
        "version": 1,
        "file": "sentencepiece.model",
        "sha256": tokenizers["bpe"].hash,
    }
    assert os.listdir(directory.parent) == ["tokenizer"]


def test_load_of_file_with_flipped_bit_is_refused(directory):
    path = directory / "sentencepiece.model"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"sentencepiece\.model: damaged.*sha256"):
        load_tokenizer(directory)


def test_load_of_truncated_file_is_refused(directory):
    path = directory / "sentencepiece.model"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"sentencepiece\.model: damaged"):
        load_tokenizer(directory)


def test_load_of_changed_setting_is_refused(tmp_path):
    WordPieceTokenizer(["a", "b"], lowercase=False).save(tmp_path / "tokenizer")
    path = tmp_path / "tokenizer" / "tokenizer.json"
    path.write_text(path.read_text().replace("false", "true"))
    with pytest.raises(UserError, match=r"damaged.*sha256"):
        load_tokenizer(tmp_path / "tokenizer")


def test_load_with_missing_file_names_it(directory, tmp_path):
    (directory / "sentencepiece.model").unlink()
    with pytest.raises(UserError, match=r"tokenizer: .*sentencepiece\.model is missing"):
        load_tokenizer(directory)
    with pytest.raises(UserError, match=r"nowhere: .*tokenizer\.json is missing"):
        load_tokenizer(tmp_path / "nowhere")
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match=r"file: .*tokenizer\.json is missing"):
        load_tokenizer(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"tokenizer\.json: damaged: not JSON"),
        ('{"name": "bytes"', r"tokenizer\.json: damaged: not JSON"),
        ("[]", r"tokenizer\.json: .*'name' is missing or wrong"),
        ('{"name": "bytes"}', r"tokenizer\.json: .*'settings' is missing or wrong"),
    ],
)
def test_load_of_foreign_description_is_refused(tmp_path, text, expected):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match=expected):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("version", 2, r"version 2.* reads version 1"),
        ("file", "../other", r"'file' .*got '\.\./other'"),
        ("file", "/etc/passwd", r"'file' .*got '/etc/passwd'"),
        ("sha256", "0" * 64, "damaged"),
        ("special_ids", {"padding": 5}, "damaged"),
        ("special_ids", {"pad": 5}, "'special_ids' is missing or wrong"),
        ("special_ids", 7, "'special_ids' is missing or wrong"),
    ],
)
def test_load_of_changed_description_is_refused(directory, key, value, expected):
    path = directory / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(UserError, match=expected):
        load_tokenizer(directory)


def test_load_of_unknown_kind_lists_known_kinds(tmp_path, monkeypatch):
    monkeypatch.setattr(ByteTokenizer, "registered_name", "syllables")
    ByteTokenizer().save(tmp_path / "tokenizer")
    with pytest.raises(UserError, match=r"'syllables'; known are .*bytes, .*sente"):
        load_tokenizer(tmp_path / "tokenizer")


def test_save_never_overwrites(directory, tmp_path, tokenizers):
    with pytest.raises(UserError, match="tokenizer: exists already"):
        tokenizers["unigram"].save(directory)
    assert load_tokenizer(directory).hash == tokenizers["bpe"].hash
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match="file: exists already"):
        tokenizers["bytes"].save(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    tokenizers["bytes"].save(tmp_path / "empty")
    assert load_tokenizer(tmp_path / "empty").vocabulary_size == 260


def test_save_on_full_disk_leaves_no_file(tmp_path, tokenizers):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            tokenizers["bpe"].save(tmp_path / "tokenizer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_save_and_load_accept_relative_path_with_spaces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ByteTokenizer().save("mit Leerzeichen ü")
    assert load_tokenizer(pathlib.Path("mit Leerzeichen ü")).vocabulary_size == 260


def test_load_without_special_ids_uses_the_defaults(directory, tokenizers):
    """Directories from before the field."""
    path = directory / "tokenizer.json"
    description = json.loads(path.read_text())
    del description["special_ids"]
    path.write_text(json.dumps(description))
    loaded = load_tokenizer(directory)
    assert loaded.special_ids == SpecialIds()
    assert loaded.hash == tokenizers["bpe"].hash
    # The hash from before the field: name and settings.
    assert ByteTokenizer().hash == hashlib.sha256(b'["bytes", {}]\n').hexdigest()


@pytest.mark.parametrize("name", ["tokenizer.json", "sentencepiece.model"])
def test_load_of_a_pipe_or_device_is_refused_at_once(directory, name):
    (directory / name).unlink()
    os.mkfifo(directory / name)
    with pytest.raises(UserError, match=rf"{re.escape(name)}: not a regular file"):
        load_tokenizer(directory)
    (directory / name).unlink()
    (directory / name).symlink_to("/dev/zero")
    with pytest.raises(UserError, match=rf"{re.escape(name)}: not a regular file"):
        load_tokenizer(directory)


def test_load_of_an_enormous_file_is_refused_before_it_is_read(directory):
    with (directory / "sentencepiece.model").open("r+b") as file:
        file.truncate(1 << 40)  # a file with a hole, which takes no room on the disk
    with pytest.raises(UserError, match=r"1,099,511,627,776 bytes"):
        load_tokenizer(directory)


def test_load_of_a_model_with_invalid_utf8_is_refused():
    """A finding of fuzzing, which is now one of its seeds."""
    from training.reliability.fuzz.targets import SEEDS

    content = (SEEDS / "sentencepiece" / "invalid_utf8.model").read_bytes()
    with pytest.raises(UserError, match="not a SentencePiece model"):
        SentencePieceTokenizer.from_bytes(content, {}, SpecialIds())
