"""Rules of BERT's tokenizer, one each."""

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.text import BertTokenizer, SpecialIds, Template

TOKENS = [
    *(
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "##a",
        "b",
        "naive",
        "σ",
        "##σ",
        "日",
        "本",
    ),
    *("-", "'", "s", ".", "mask", "[", "]", "naïve", "A", "ß"),
]
SPECIAL = SpecialIds(padding=0, unknown=1, start=2, end=3)


def make(**options):
    return BertTokenizer(TOKENS, SPECIAL, Template((2,), (3,)), controls=(4,), **options)


def tokens_of(text, **options):
    tokenizer = make(**options)
    row = tokenizer.tokenize([text]).to_list()[0]
    return [TOKENS[number] for number in row]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Aa", "a ##a"),
        ("NAÏVE", "naive"),
        ("ΣΣ", "σ ##σ"),  # no final sigma
        ("日本", "日 本"),
        ("a\u200b\x00\x01\ufffda", "a ##a"),  # removed
        ("a\u2028b\u3000a\tb", "a b a b"),
        ("a\x0bb", "[UNK]"),  # removed, not a space
        ("a-b's.", "a - b ' s ."),
        ("[MASK]", "[ mask ]"),
        ("xa", "[UNK]"),
        ("a" * 100, "a" + " ##a" * 99),
        ("a" * 101, "[UNK]"),
        ("", ""),
    ],
)
def test_uncased_text_is_split_as_by_bert(text, tokens):
    assert " ".join(tokens_of(text)) == tokens


@pytest.mark.parametrize(
    ("text", "options", "tokens"),
    [
        ("A naïve", {"lowercase": False}, "A naïve"),
        ("A naïve", {"lowercase": False, "strip_accents": True}, "A naive"),
        ("A naïve", {"lowercase": True, "strip_accents": False}, "a naïve"),
        ("日本", {"splits_chinese": False}, "[UNK]"),
        ("aaa", {"max_characters": 2}, "[UNK]"),
    ],
)
def test_options_change_the_rules(text, options, tokens):
    assert " ".join(tokens_of(text, **options)) == tokens


def test_detokenize_writes_no_space_before_closing_punctuation():
    ids = [[2, 5, 6, 16, 14, 15, 3, 0]]
    assert make().detokenize(ids).numpy().tolist() == [b"aa. ' s"]
    assert make(clean_up=True).detokenize(ids).numpy().tolist() == [b"aa.'s"]


def test_equal_tokens_are_refused():
    with pytest.raises(UserError, match="equal"):
        BertTokenizer([*TOKENS, "a"], SPECIAL)
