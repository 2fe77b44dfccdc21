"""Property tests: every tokenizer restores texts over all of Unicode."""

import functools
import re
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HARD = [
    *("", " ", "  ", "a ", " a", "  two  spaces  ", "\t", "\n", "\r\n", "a\tb\nc\rd", "\x0b\x0c"),
    *("\u2028", "\u2029", "\x85", "\xa0", "\u3000", "\u200b", "\ufeff", "\x10", "\x10_", "\x10P"),
    *("▁", "▁▁a▁", " ▁", "\u2585", "\x00", "a\x00b", "\x01\x02\x1f\x7f", "\ufffd", "\ufffe\uffff"),
    *(
        "👩‍👩‍👧‍👦",
        "🇩🇪🇫🇷",
        "👍🏽",
        "e\u0301",
        "é",
        "\u0301",
        "ﷺ",
        "ﬁ",
        "Å",
        "İ",
        "ΑΣ",
        "ß",
        "각",
        "각",
    ),
    *("שלום עולם", "السلام عليكم", "\u202eabc\u202c", "हिन्दी", "ไทย", "日本語", "\U0010ffff"),
    *("<s>", "</s>", "<pad>", "<unk>", "<padding>", "<unknown>", "<start>", "<end>", "<start >"),
    *(
        "[PAD]",
        "[UNK]",
        "[START]",
        "[END]",
        "[CLS]",
        "##",
        "##s",
        "# ##",
        "<0x41>",
        " ⁇ ",
        "special 1",
    ),
]
TEXTS = st.lists(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(HARD), max_size=4).map("".join),
        st.text(alphabet=st.sampled_from("abcdeéüßДжλσςΣअआ日本語한국 \xa0\t,.()#▁")),
    ),
    max_size=20,
)
BYTES = st.lists(st.one_of(st.binary(), st.text().map(str.encode)), max_size=20)
WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")

examples = settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def round_trip(tokenizer, strings):
    return tokenizer.detokenize(tokenizer.tokenize(strings)).numpy().tolist()


@examples
@given(strings=BYTES)
def test_bytes_restore_any_bytes(tokenizers, strings):
    assert round_trip(tokenizers["bytes"], strings) == strings


@pytest.mark.parametrize("name", ["unigram", "bpe"])
def test_sentencepiece_restores_hard_texts(tokenizers, name):
    assert round_trip(tokenizers[name], HARD) == [text.encode() for text in HARD]


@pytest.mark.parametrize("name", ["unigram", "bpe"])
@examples
@given(texts=TEXTS)
def test_sentencepiece_restores_any_unicode(tokenizers, name, texts):
    assert round_trip(tokenizers[name], texts) == [text.encode() for text in texts]


@pytest.mark.parametrize("name", ["unigram", "bpe"])
@examples
@given(strings=BYTES)
def test_sentencepiece_replaces_invalid_utf8(tokenizers, name, strings):
    expected = [string.decode("utf-8", "replace").encode() for string in strings]
    assert round_trip(tokenizers[name], strings) == expected
    assert tokenizers[name].normalize(strings).numpy().tolist() == expected


def normalized_words(text, lowercase):
    """Returns words by the documented normalization of WordPiece, written in Python."""
    text = text.replace("\0", "\ufffd")
    text = unicodedata.normalize("NFC", text.lower() if lowercase else text)
    return [word for word in WHITE_SPACE.split(text) if word]


@functools.cache
def characters_of(tokenizer):
    return {piece for piece in tokenizer.vocabulary() if len(piece) == 1}


def spelled_by_wordpiece(tokenizer, texts, lowercase):
    """Returns normalized texts without words that have a character outside the vocabulary."""
    alphabet = characters_of(tokenizer)
    spelled = []
    for text in texts:
        words = normalized_words(text, lowercase)
        spelled.append(" ".join(word for word in words if alphabet.issuperset(word)).encode())
    return spelled


@pytest.mark.parametrize(
    ("name", "lowercase"), [("wordpiece", False), ("wordpiece_lowercase", True)]
)
@examples
@given(texts=TEXTS)
def test_wordpiece_restores_normalized_known_words(tokenizers, name, lowercase, texts):
    expected = spelled_by_wordpiece(tokenizers[name], texts, lowercase)
    assert round_trip(tokenizers[name], texts) == expected


@examples
@given(texts=TEXTS)
def test_wordpiece_normalizes_as_documented(tokenizers, texts):
    expected = [" ".join(normalized_words(text, lowercase=False)).encode() for text in texts]
    assert tokenizers["wordpiece"].normalize(texts).numpy().tolist() == expected


@examples
@given(strings=BYTES)
def test_wordpiece_replaces_invalid_utf8(tokenizers, strings):
    texts = [string.decode("utf-8", "replace") for string in strings]
    expected = spelled_by_wordpiece(tokenizers["wordpiece"], texts, lowercase=False)
    assert round_trip(tokenizers["wordpiece"], strings) == expected


def test_real_corpus_is_restored(tokenizers, corpus):
    for name in ("bytes", "unigram", "bpe"):
        assert round_trip(tokenizers[name], corpus) == [line.encode() for line in corpus]
    normalized = [" ".join(normalized_words(line, lowercase=False)).encode() for line in corpus]
    assert round_trip(tokenizers["wordpiece"], corpus) == normalized
