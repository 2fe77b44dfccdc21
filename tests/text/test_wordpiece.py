"""WordPiece tokenizers: vocabulary files, unknown words, and learning of pieces."""

import collections
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.text import SpecialIds, WordPieceTokenizer, learn_tokenizer
from keras_transformer.text.wordpiece_tokenizer import learn_pieces


def tokens(tokenizer, text):
    return [token.decode() for token in tokenizer.tokens(tokenizer.tokenize([text]))[0].numpy()]


def test_tokenize_takes_longest_piece_from_the_left():
    tokenizer = WordPieceTokenizer(["a", "ab", "abc", "##b", "##c", "##cd", "##d", "##e"])
    assert tokens(tokenizer, "abcd abce ab acd") == [
        *("abc", "##d"),
        *("abc", "##e"),
        "ab",
        *("a", "##cd"),
    ]


def test_word_that_begins_with_continuation_mark_is_a_word():
    tokenizer = WordPieceTokenizer(["s", "##s", "#", "###"])
    assert tokens(tokenizer, "##s s##s") == ["#", "###", "##s", "s", "###", "###", "##s"]
    texts = ["##s", "s##s", "## s", "#s", "###"]
    back = tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
    assert back == [text.encode() for text in texts]


def test_word_with_unknown_character_is_one_unknown_id(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    ids = tokenizer.tokenize(["Deutsch Deut\U0001f9ffsch Deutsch"])
    assert (ids.values.numpy() == tokenizer.special_ids.unknown).sum() == 1
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"Deutsch Deutsch"]


def test_long_word_is_split_into_pieces(tokenizers):
    word = "Donaudampfschiff" * 1000
    ids = tokenizers["wordpiece"].tokenize([word])
    assert tokenizers["wordpiece"].detokenize(ids).numpy().tolist() == [word.encode()]


def test_lowercase_is_stored_and_applied(tokenizers, tmp_path):
    tokenizer = tokenizers["wordpiece_lowercase"]
    assert tokenizer.settings() == {"lowercase": True}
    back = tokenizer.detokenize(tokenizer.tokenize(["ÄNDERUNG  E\u0301 Λόγος ΛΌΓΟΣ"]))
    assert back.numpy()[0].decode() == "änderung é λόγος λόγος"


def test_detokenize_of_leading_continuation_starts_a_word():
    tokenizer = WordPieceTokenizer(["a", "##b"])
    assert tokenizer.detokenize([[5, 4, 5]]).numpy().tolist() == [b"b ab"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"the\nhouse\nthe\n",
            r"vocab\.txt:3: .*'the' .*number 1",
        ),
        (b"the\n\nhouse\n", r"vocab\.txt:2: .*''"),
        (b"the\n##\n", r"vocab\.txt:2: .*'##'"),
        (b"the\ntwo words\n", r"vocab\.txt:2: .*'two words' .*white space"),
        ("the\nno\u00a0break".encode(), r"vocab\.txt:2: .*white space"),
        (b"nul\0\n", r"vocab\.txt:1: .*U\+0000"),
        (b"the\nh\xe4user\n", r"vocab\.txt:2: not UTF-8"),
        (b"", r"vocab\.txt: no pieces"),
    ],
)
def test_wrong_vocabulary_file_is_refused_with_its_line(tmp_path, content, expected):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(UserError, match=expected):
        WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")


def test_missing_vocabulary_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"vocab\.txt: .*No such file"):
        WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")


def test_vocabulary_file_may_have_byte_order_mark_and_carriage_returns(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbfthe\r\nhouse\r\n##s")
    tokenizer = WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")
    assert tokenizer.vocabulary()[4:] == ["the", "house", "##s"]
    assert tokenizer.hash == WordPieceTokenizer(["the", "house", "##s"]).hash


def test_duplicate_piece_is_refused_with_its_number():
    with pytest.raises(UserError, match=r"`pieces`:2: .*'a' .*number 1"):
        WordPieceTokenizer(["a", "a"])


def test_learning_warns_of_characters_beyond_the_vocabulary(silent):
    lines = ["".join(chr(0x4E00 + number) for number in range(200))]
    with (
        pytest.warns(UserWarning, match="74 of the 200 characters"),
        pytest.warns(UserWarning, match="fewer than"),
    ):
        learn_tokenizer("wordpiece", lines, 300, progress=silent)


def test_learning_never_merges_punctuation(silent):
    lines = ["(house). (house), house!"] * 9
    with pytest.warns(UserWarning, match="fewer than"):
        tokenizer = learn_tokenizer("wordpiece", lines, 60, progress=silent)
    merged = [piece.removeprefix("##") for piece in tokenizer.vocabulary()[4:]]
    assert "house" in merged
    assert not [piece for piece in merged if len(piece) > 1 and not piece.isalpha()]


def learn_slowly(words, size):
    """Returns pieces by the definition of the merges, counting all pairs before each."""
    letters = collections.Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    alphabet = sorted(letters, key=lambda letter: (-letters[letter], letter))[: size // 4]
    pieces = [form for letter in alphabet for form in (letter, "##" + letter)]
    spelt = {
        word: [word[0], *("##" + letter for letter in word[1:])]
        for word in words
        if set(word) <= set(alphabet)
    }
    while len(pieces) < size:
        pairs = collections.Counter()
        for word, spelling in spelt.items():
            for pair in itertools.pairwise(spelling):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        merged = best[0] + best[1][2:]
        for spelling in spelt.values():
            place = 0
            while place + 1 < len(spelling):
                if (spelling[place], spelling[place + 1]) == best:
                    spelling[place : place + 2] = [merged]
                place += 1
        if merged not in pieces:
            pieces.append(merged)
    return pieces


@settings(max_examples=200)
@given(
    words=st.dictionaries(
        st.text(alphabet="abcd", min_size=1, max_size=10), st.integers(1, 9), max_size=12
    ),
    size=st.integers(16, 60),
)
def test_learn_pieces_equals_counting_before_each_merge(words, size, silent):
    assert learn_pieces(words, size, silent) == learn_slowly(words, size)


def test_vocabulary_file_fills_the_ids_that_are_not_special(tmp_path):
    (tmp_path / "vocab.txt").write_text("the\nhouse\n##s\n")
    special_ids = SpecialIds(padding=5, unknown=1, start=5, end=0)
    tokenizer = WordPieceTokenizer.from_vocabulary_file(
        tmp_path / "vocab.txt", special_ids=special_ids
    )
    assert tokenizer.vocabulary() == ["<end>", "<unknown>", "the", "house", "##s", "<padding>"]
    assert tokenizer.tokenize(["the houses zoo"]).to_list() == [[2, 3, 4, 1]]
    spelled = tokenizer.detokenize([[2, 3, 4, 1, 0, 5]], [["", "", "", " zoo", "", ""]])
    assert spelled.numpy().tolist() == [b"the houses zoo"]
