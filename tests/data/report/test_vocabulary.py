"""How much of a vocabulary a corpus uses."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.data_report.statistics import describe_vocabularies, find_tokenizers
from keras_transformer.data import MemoryCorpus, tokenize_corpus
from keras_transformer.text import ByteTokenizer, TokenizerPair, WordPieceTokenizer, learn_tokenizer

WORDS = WordPieceTokenizer(["one", "two", "three", "##s", "never"])


def describe(examples, tokenizers, tmp_path, columns=("text",)):
    cache = tokenize_corpus(MemoryCorpus(examples, columns), tokenizers, tmp_path / "caches")
    return describe_vocabularies(cache, tokenizers)


def test_use_of_words(tmp_path):
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
    # What is unknown is no piece, however often it occurs.
    assert part["rank_frequency"] == {"ranks": [1, 2, 3], "counts": [120, 80, 60]}


def test_a_text_without_any_known_word(tmp_path):
    (part,) = describe([("zebra",)], {"text": WORDS}, tmp_path)
    assert part["unknown_share"] == 1
    assert part["rank_frequency"] == {"ranks": [], "counts": []}


def test_what_is_spelt_in_bytes(tmp_path):
    lines = ["ein Haus am See", "ein Boot am Haus", "am See ein Boot"] * 10
    tokenizer = learn_tokenizer("sentencepiece", lines, 276, progress=lambda *_: None)
    (part,) = describe([("ein Haus",), ("ein 家",)], {"text": tokenizer}, tmp_path)
    ids = tokenizer.tokenize(["ein Haus", "ein 家"]).to_list()
    assert part["tokens"] == sum(map(len, ids))
    assert part["byte_fallback_share"] == pytest.approx(3 / part["tokens"])
    assert part["pieces"] == tokenizer.vocabulary_size - 4 - 256


def test_sides_with_one_vocabulary_are_described_together(tmp_path):
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


def test_a_saved_tokenizer(corpus, tmp_path):
    WORDS.save(tmp_path / "words")
    tokenizers, asked_size, warnings = find_tokenizers(corpus, str(tmp_path / "words"))
    assert {name: tokenizer.hash for name, tokenizer in tokenizers.items()} == dict.fromkeys(
        ("source", "target"), WORDS.hash
    )
    assert (asked_size, warnings) == (None, [])


def test_a_saved_pair(corpus, tmp_path):
    TokenizerPair(WORDS, ByteTokenizer()).save(tmp_path / "pair")
    tokenizers, *_ = find_tokenizers(corpus, tmp_path / "pair")
    assert tokenizers["source"].hash == WORDS.hash
    assert tokenizers["target"].hash == ByteTokenizer().hash


def test_learning_from_both_sides(corpus):
    tokenizers, asked_size, warnings = find_tokenizers(corpus, "wordpiece", 60)
    assert tokenizers["source"] is tokenizers["target"]
    assert {"three", "drei"} <= set(tokenizers["source"].vocabulary())
    assert asked_size == 60
    assert all("fewer than the 60 asked for" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("tokenizer", "size", "message"),
    [
        ("sentencpiece", None, "neither a kind of tokenizer .bytes, sentencepiece, wordpiece. nor"),
        ("bytes", 300, "`vocabulary_size` is for a vocabulary that is learned; bytes has a size"),
        ("sentencepiece", 20, "`vocabulary_size` must be at least 2"),
    ],
)
def test_mistakes(corpus, tokenizer, size, message):
    with pytest.raises(UserError, match=message):
        find_tokenizers(corpus, tokenizer, size)


def test_a_directory_without_a_tokenizer(corpus, tmp_path):
    with pytest.raises(UserError, match="holds no pair of tokenizers"):
        find_tokenizers(corpus, tmp_path)
