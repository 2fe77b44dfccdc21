"""Pairs of tokenizers: shared or separate, in one directory."""

import os

import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.text import ByteTokenizer, SpecialIds, TokenizerPair


def test_pair_of_one_tokenizer_is_shared_and_stored_once(tokenizers, tmp_path):
    pair = TokenizerPair(tokenizers["unigram"])
    assert pair.is_shared
    assert pair.target is pair.source
    pair.save(tmp_path / "pair")
    assert os.listdir(tmp_path / "pair") == ["shared"]
    loaded = TokenizerPair.load(tmp_path / "pair")
    assert loaded.is_shared
    assert loaded.source.hash == tokenizers["unigram"].hash


def test_pair_of_two_tokenizers_is_stored_and_loaded(tokenizers, tmp_path):
    TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"]).save(tmp_path / "pair")
    assert sorted(os.listdir(tmp_path / "pair")) == ["source", "target"]
    loaded = TokenizerPair.load(str(tmp_path / "pair"))
    assert not loaded.is_shared
    assert loaded.source.hash == tokenizers["bytes"].hash
    assert loaded.target.hash == tokenizers["wordpiece"].hash


def test_pair_of_equal_tokenizers_is_shared():
    assert TokenizerPair(ByteTokenizer(), ByteTokenizer()).is_shared


def test_pair_is_a_module_with_both_tokenizers(tokenizers):
    pair = TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"])
    assert isinstance(pair, tf.Module)
    assert {tokenizers["bytes"], tokenizers["wordpiece"]} <= set(pair.submodules)


def test_load_pair_from_wrong_directory_names_it(tokenizers, tmp_path):
    with pytest.raises(UserError, match="nowhere: no pair of tokenizers"):
        TokenizerPair.load(tmp_path / "nowhere")
    TokenizerPair(tokenizers["bytes"], tokenizers["wordpiece"]).save(tmp_path / "pair")
    (tmp_path / "pair" / "target").rename(tmp_path / "away")
    with pytest.raises(UserError, match=r"target: .*tokenizer\.json is missing"):
        TokenizerPair.load(tmp_path / "pair")
    with pytest.raises(UserError, match="pair: exists already"):
        TokenizerPair(tokenizers["bytes"]).save(tmp_path / "pair")


def test_pair_has_the_special_ids_of_both_sides(tmp_path):
    special_ids = SpecialIds(padding=5)
    pair = TokenizerPair(ByteTokenizer(special_ids), ByteTokenizer(special_ids))
    pair.save(tmp_path / "pair")
    assert TokenizerPair.load(tmp_path / "pair").special_ids == pair.special_ids == special_ids


def test_pair_with_different_special_ids_is_refused():
    with pytest.raises(UserError, match=r"special ids.*padding=0.*padding=5"):
        TokenizerPair(ByteTokenizer(), ByteTokenizer(SpecialIds(padding=5)))
