"""Use of vocabularies, and choice of tokenizers."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.statistics import describe_vocabularies, find_tokenizers
from keras_transformer.data import MemoryCorpus, tokenize_corpus
from keras_transformer.text import (
    ByteTokenizer,
    SpecialIds,
    TokenizerPair,
    WordPieceTokenizer,
    learn_tokenizer,
)

WORDS = WordPieceTokenizer(["one", "two", "three", "##s", "never"])


def describe(examples, tokenizers, tmp_path, columns=("text",)):
    cache = tokenize_corpus(MemoryCorpus(examples, columns), tokenizers, tmp_path / "caches")
    return describe_vocabularies(cache, tokenizers)


def test_vocabulary_counts_pieces(tmp_path):
    examples = [("one two twos",)] * 60 + [("one zebra",)] * 20
    (part,) = describe(examples, {"text": WORDS}, tmp_path)
    assert (part["kind"], part["size"], part["pieces"]) == ("wordpiece", 9, 5)
    assert (part["used_pieces"], part["used_share"]) == (3, pytest.approx(3 / 5))
    assert part["tokens"] == 60 * 4 + 20 * 2
    assert part["unknown_share"] == pytest.approx(20 / 280)
    assert part["byte_fallback_share"] is None  # words have none
    assert part["learnable_share"] == pytest.approx(1 / 5)  # "two" 120 times, "one" only 80
    assert part["rarest_pieces"] == [
        {"piece": "##s", "count": 60},
        {"piece": "one", "count": 80},
        {"piece": "two", "count": 120},
    ]
    # The unknown id is not a piece, however often it occurs.
    assert part["rank_frequency"] == {"ranks": [1, 2, 3], "counts": [120, 80, 60]}


def test_text_of_unknown_words(tmp_path):
    (part,) = describe([("zebra",)], {"text": WORDS}, tmp_path)
    assert part["unknown_share"] == 1
    assert part["rank_frequency"] == {"ranks": [], "counts": []}


def test_byte_fallback_share(tmp_path):
    lines = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
    tokenizer = learn_tokenizer("sentencepiece", lines, 276, progress=lambda *_: None)
    (part,) = describe([("ein Haus",), ("ein 家",)], {"text": tokenizer}, tmp_path)
    ids = tokenizer.tokenize(["ein Haus", "ein 家"]).to_list()
    assert part["tokens"] == sum(map(len, ids))
    assert part["byte_fallback_share"] == pytest.approx(3 / part["tokens"])
    assert part["pieces"] == tokenizer.vocabulary_size - 4 - 256


def test_sides_with_same_vocabulary_are_described_together(tmp_path):
    sides = ("source", "target")
    pairs = [("one", "two")]
    (part,) = describe(pairs, dict.fromkeys(sides, WORDS), tmp_path, sides)
    assert (part["columns"], part["used_pieces"]) == (["source", "target"], 2)
    tokenizers = {"source": WORDS, "target": ByteTokenizer()}
    parts = describe(pairs, tokenizers, tmp_path, sides)
    assert [part["columns"] for part in parts] == [["source"], ["target"]]
    assert [part["tokens"] for part in parts] == [1, 3]


@pytest.fixture
def corpus():
    return MemoryCorpus([("one two three", "eins zwei drei")] * 20)


def test_find_tokenizers_loads_saved_tokenizer(corpus, tmp_path):
    WORDS.save(tmp_path / "words")
    tokenizers, requested_size, warnings = find_tokenizers(corpus, str(tmp_path / "words"))
    assert {name: tokenizer.hash for name, tokenizer in tokenizers.items()} == dict.fromkeys(
        ("source", "target"), WORDS.hash
    )
    assert (requested_size, warnings) == (None, [])


def test_find_tokenizers_loads_saved_pair(corpus, tmp_path):
    TokenizerPair(WORDS, ByteTokenizer()).save(tmp_path / "pair")
    tokenizers, *_ = find_tokenizers(corpus, tmp_path / "pair")
    assert tokenizers["source"].hash == WORDS.hash
    assert tokenizers["target"].hash == ByteTokenizer().hash


def test_find_tokenizers_learns_from_both_sides(corpus):
    tokenizers, requested_size, warnings = find_tokenizers(corpus, "wordpiece", 60)
    assert tokenizers["source"] is tokenizers["target"]
    assert {"three", "drei"} <= set(tokenizers["source"].vocabulary())
    assert requested_size == 60
    assert all("60" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("tokenizer", "size", "message"),
    [
        ("sentencpiece", None, "sentencpiece: neither .*bytes, .*sentencepiece, wordpiece"),
        ("bytes", 300, "`vocabulary_size` .*bytes"),
        ("sentencepiece", 20, "`vocabulary_size` must be"),
    ],
)
def test_find_tokenizers_with_invalid_arguments_raises(corpus, tokenizer, size, message):
    with pytest.raises(UserError, match=message):
        find_tokenizers(corpus, tokenizer, size)


def test_find_tokenizers_with_empty_directory_raises(corpus, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty"):
        find_tokenizers(corpus, tmp_path / "empty")


def test_vocabulary_with_other_special_ids_is_described_equally(tmp_path):
    examples = [("abc",), ("a",)]
    usual = ByteTokenizer()
    other = ByteTokenizer(SpecialIds(padding=259, unknown=258, start=257, end=256))
    (expected,) = describe(examples, {"text": usual}, tmp_path)
    (found,) = describe(examples, {"text": other}, tmp_path)
    assert found == expected
