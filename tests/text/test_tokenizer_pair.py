"""Source and target: one vocabulary or two, in one directory."""

import os

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text import ByteTokenizer, TokenizerPair


def test_one_tokenizer_is_shared_and_stored_once(tokenizers, tmp_path):
    pair = TokenizerPair(tokenizers["unigram"])
    assert pair.is_shared
    assert pair.target is pair.source
    pair.save(tmp_path / "pair")
    assert os.listdir(tmp_path / "pair") == ["shared"]
    loaded = TokenizerPair.load(tmp_path / "pair")
    assert loaded.is_shared
    assert loaded.source.hash == tokenizers["unigram"].hash


def test_two_tokenizers_stay_two(tokenizers, tmp_path):
    TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"]).save(tmp_path / "pair")
    assert sorted(os.listdir(tmp_path / "pair")) == ["source", "target"]
    loaded = TokenizerPair.load(str(tmp_path / "pair"))
    assert not loaded.is_shared
    assert loaded.source.hash == tokenizers["bytes"].hash
    assert loaded.target.hash == tokenizers["wordpiece"].hash


def test_equal_tokenizers_are_one():
    assert TokenizerPair(ByteTokenizer(), ByteTokenizer()).is_shared


def test_a_module_finds_both(tokenizers):
    pair = TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"])
    assert isinstance(pair, tf.Module)
    assert {tokenizers["bytes"], tokenizers["wordpiece"]} <= set(pair.submodules)


def test_what_is_missing_is_named(tokenizers, tmp_path):
    with pytest.raises(UserError, match="nowhere: holds no pair of tokenizers, neither 'shared'"):
        TokenizerPair.load(tmp_path / "nowhere")
    TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"]).save(tmp_path / "pair")
    (tmp_path / "pair" / "target").rename(tmp_path / "away")
    with pytest.raises(UserError, match=r"target: holds no tokenizer, tokenizer\.json is missing"):
        TokenizerPair.load(tmp_path / "pair")
    with pytest.raises(UserError, match="pair: exists already"):
        TokenizerPair(tokenizers["bytes"]).save(tmp_path / "pair")
