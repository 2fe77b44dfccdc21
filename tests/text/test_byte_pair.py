"""Byte-level BPE: words, merges, and models that are refused."""

import random

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.text import BytePairTokenizer, SpecialIds, Template
from keras_transformer.text.byte_pair_model import (
    BYTE_CHARACTERS,
    byte_pair_model,
    merged,
    token_bytes,
)

SPECIAL = SpecialIds(padding=0, unknown=1, start=1, end=1)
MERGES = [("l", "o"), ("lo", "w"), ("e", "r"), ("Ġ", "low"), ("er", "er"), ("Ã", "¤")]


def make(merges=MERGES, extra=(), **options):
    tokens = ["<pad>", "<end>", *BYTE_CHARACTERS, *("".join(pair) for pair in merges), *extra]
    model = byte_pair_model(tokens, merges, without_text=(0, 1))
    return BytePairTokenizer(model, len(tokens), SPECIAL, Template(), **options)


def tokens_of(tokenizer, text):
    labels = tokenizer.vocabulary()
    return [labels[number] for number in tokenizer.tokenize([text]).to_list()[0]]


def test_pairs_are_merged_in_the_order_of_the_merges():
    assert tokens_of(make(), "lower lowerer ä") == ["low", "er", "Ġlow", "erer", "Ġ", "Ã¤"]


def test_random_texts_are_split_as_by_the_original_algorithm():
    draws, merges = random.Random(3), list(MERGES)
    tokens = sorted({token for pair in merges for token in pair})
    for _ in range(60):  # merges of merges, of which many can be joined in several ways
        pair = draws.choice(tokens), draws.choice(tokens)
        if pair[0] + pair[1] not in tokens:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    tokenizer = make(merges)
    ranks = {(token_bytes(a), token_bytes(b)): n for n, (a, b) in enumerate(merges)}
    texts = ["".join(draws.choices("lower", k=draws.randint(1, 30))) for _ in range(300)]
    numbers = tokenizer.tokenize(texts).to_list()
    labels = tokenizer.vocabulary()
    for text, row in zip(texts, numbers, strict=True):
        assert [token_bytes(labels[number]) for number in row] == merged(text.encode(), ranks)


@pytest.mark.parametrize(
    ("pattern", "text", "words"),
    [
        ("gpt2", "a  b\t\tc  ", ["a", " ", " b", "\t", "\t", "c", "  "]),
        ("gpt2", "it's 'S''s", ["it", "'s", " '", "S", "''", "s"]),
        ("gpt2", "ab12 34!? x", ["ab", "12", " 34", "!?", " x"]),
        ("gpt2", "a\u3000\u3000b\x00\x00 c", ["a", "\u3000", "\u3000", "b", "\x00\x00", " c"]),
        ("gpt2_digits", "a 12  3", ["a", " ", "1", "2", "  ", "3"]),
        (
            "llama3",
            "I'LL 12345\n\n  x\ty",
            ["I", "'LL", " ", "123", "45", "\n\n", " ", " x", "\ty"],
        ),
        ("llama3", "(a) !\n\nb \n c", ["(a", ")", " !\n\n", "b", " \n", " c"]),
        ("qwen2", "a123\u00a0b", ["a", "1", "2", "3", "\u00a0b"]),
        ("gpt2", "", []),
        ("gpt2", " ", [" "]),
    ],
)
def test_text_is_split_into_the_words_of_the_pattern(pattern, text, words):
    found = make(pattern=pattern)._split_words([text]).to_list()[0]
    assert [word.decode() for word in found] == words


def test_any_text_is_restored():
    texts = ["\x00\xff ä\U0010ffff\n", "", "  a ", "\ufdd0\u200b"]
    tokenizer = make()
    back = tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
    assert back == [text.encode() for text in texts]


def test_text_gets_a_space_only_if_it_begins_with_none():
    tokenizer = make(adds_space=True)
    for text in ("low", " low"):
        assert tokens_of(tokenizer, text) == ["Ġlow"]
    assert tokens_of(tokenizer, "") == []


def test_text_is_normalized_if_set():
    assert tokens_of(make(normalizes=True), "a\u0308") == ["Ã¤"]


def test_token_that_no_merge_makes_is_found_as_a_whole_word_alone():
    assert tokens_of(make(extra=("lowerx",)), "lowerx") == ["low", "er", "x"]
    tokenizer = make(extra=("lowerx",), whole_words=True)
    assert tokens_of(tokenizer, "lowerx") == ["lowerx"]
    assert tokens_of(tokenizer, "lowerxy ö") == ["low", "er", "x", "y", "Ġ", "Ã", "¶"]


def test_merge_that_is_never_reached_is_not_used():
    # "lo" is merged before "ow" exists, so that no text has "l" before "ow".
    assert tokens_of(make([("l", "o"), ("o", "w"), ("l", "ow")]), "low") == ["lo", "w"]


@pytest.mark.parametrize(
    ("tokens", "merges", "facts"),
    [
        ([*BYTE_CHARACTERS[:0x41], *BYTE_CHARACTERS[0x42:]], [], "0x41"),
        (BYTE_CHARACTERS, [("a", "b")], "'a' and 'b'"),
        ([*BYTE_CHARACTERS, "ab"], [("a", "ab")], "'a' and 'ab'"),
        ([*BYTE_CHARACTERS, "日"], [("a", "日")], "'日'"),
        ([*BYTE_CHARACTERS, "a" * 501], [], "500 bytes"),
        # Merged in the order of the merges, "abc" has its last merge first.
        (
            [*BYTE_CHARACTERS, "ab", "bc", "abc", "cd", "abcd", "xab"],
            [("ab", "cd"), ("x", "ab"), ("a", "bc"), ("c", "d"), ("b", "c"), ("a", "b")],
            None,
        ),
    ],
)
def test_vocabulary_with_wrong_merges_is_refused_or_split_as_it_says(tokens, merges, facts):
    if facts is not None:
        with pytest.raises(UserError, match=facts):
            byte_pair_model(tokens, merges, ())
        return
    tokenizer = BytePairTokenizer(
        byte_pair_model(tokens, merges, ()), len(tokens), SPECIAL, Template()
    )
    ranks = {(token_bytes(a), token_bytes(b)): n for n, (a, b) in enumerate(merges)}
    for text in ("abcd", "xabcd", "abc", "bcd"):
        found = [token_bytes(token) for token in tokens_of(tokenizer, text)]
        assert found == merged(text.encode(), ranks)


def test_bytes_without_a_token_are_dropped():
    tokens = ["<pad>", "<end>", *BYTE_CHARACTERS[0x20:0x7F], "ab"]
    model = byte_pair_model(tokens, [("a", "b")], without_text=(0, 1))
    tokenizer = BytePairTokenizer(model, len(tokens), SPECIAL, Template())
    assert tokens_of(tokenizer, "ab\x04b é c") == ["ab", "b", "Ġ", "Ġ", "c"]
