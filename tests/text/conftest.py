"""Fixtures: a small real corpus in many scripts, and a tokenizer of every kind learned from it."""

import io
import json
import pathlib
import tarfile

import babel
import pytest
import sentencepiece

from keras_transformer.text import (
    BertTokenizer,
    BytePairTokenizer,
    ByteTokenizer,
    PretrainedSentencePieceTokenizer,
    SpecialIds,
    learn_tokenizer,
)
from keras_transformer.text.byte_pair_model import byte_pair_model
from keras_transformer.text.sentencepiece_pieces import arrange_pieces, parse_model

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "tokenizers"
LANGUAGES = (
    *("ar", "cs", "de", "el", "en", "es", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko"),
    *("nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh"),
)


def names_from_cldr():
    """Yields names of countries in 26 languages: about 7,500 lines of CLDR."""
    for language in LANGUAGES:
        locale = babel.Locale(language)
        for name in locale.territories.values():
            yield f"{name} ({locale.get_display_name(language)})"


@pytest.fixture(scope="session")
def corpus():
    return list(names_from_cldr())


@pytest.fixture(scope="session")
def silent():
    """Returns a progress callback that shows nothing."""
    return lambda stage, done, total: None


def foreign_sentencepiece(lines):
    """Returns a tokenizer with a model of the kind that Llama has, learned from lines."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=content,
        model_type="bpe",
        vocab_size=3000,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = parse_model(content.getvalue())
    pieces = [each.piece for each in model.pieces if each.type not in (2, 3)]
    tokens = ["<pad>", "<unk>", "<s>", "</s>", *pieces]
    arranged = arrange_pieces(model, tokens, unknown=1, controls={0, 2, 3})
    return PretrainedSentencePieceTokenizer(arranged, len(tokens), SpecialIds())


def byte_pairs():
    """Returns a byte-level BPE tokenizer with the merges of a small GPT-2 vocabulary."""
    with tarfile.open(FIXTURES / "byte_pair.tar.xz") as archive:
        vocabulary = json.load(archive.extractfile("gpt2/vocab.json"))
        lines = archive.extractfile("gpt2/merges.txt").read().decode().split("\n")[1:-1]
    tokens = [token for token in vocabulary if token != "<|endoftext|>"]
    tokens = ["<pad>", "<unk>", "<s>", "</s>", *tokens]
    merges = [tuple(line.split(" ")) for line in lines]
    model = byte_pair_model(tokens, merges, without_text=range(4))
    return BytePairTokenizer(model, len(tokens), SpecialIds())


@pytest.fixture(scope="session")
def tokenizers(corpus, silent):
    """Returns every kind and variant by name; each session learns them once."""
    lowercase = learn_tokenizer("wordpiece", corpus, 7000, lowercase=True, progress=silent)
    return {
        "bytes": ByteTokenizer(),
        "unigram": learn_tokenizer("sentencepiece", corpus, 3000, progress=silent),
        "bpe": learn_tokenizer("sentencepiece", corpus, 3000, model="bpe", progress=silent),
        "pretrained_sentencepiece": foreign_sentencepiece(corpus),
        "wordpiece": learn_tokenizer("wordpiece", corpus, 7000, progress=silent),
        "wordpiece_lowercase": lowercase,
        "byte_pair": byte_pairs(),
        "bert": BertTokenizer(lowercase.vocabulary(), SpecialIds(), controls=(0, 2, 3)),
    }
