"""What only WordPiece has: a vocabulary file, unknown words, and a learner of its own."""

import collections
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer._utils.errors import UserError
from keras_transformer.text import UNKNOWN_ID, WordPieceTokenizer, learn_tokenizer
from keras_transformer.text.wordpiece_tokenizer import learn_pieces


def tokens(tokenizer, text):
    return [token.decode() for token in tokenizer.tokens(tokenizer.tokenize([text]))[0].numpy()]


def test_the_longest_piece_from_the_left_is_taken():
    tokenizer = WordPieceTokenizer(["a", "ab", "abc", "##b", "##c", "##cd", "##d", "##e"])
    assert tokens(tokenizer, "abcd abce ab acd") == [
        *("abc", "##d"),
        *("abc", "##e"),
        "ab",
        *("a", "##cd"),
    ]


def test_words_that_look_like_inner_pieces_are_words():
    tokenizer = WordPieceTokenizer(["s", "##s", "#", "###"])
    assert tokens(tokenizer, "##s s##s") == ["#", "###", "##s", "s", "###", "###", "##s"]
    texts = ["##s", "s##s", "## s", "#s", "###"]
    back = tokenizer.detokenize(tokenizer.tokenize(texts)).numpy().tolist()
    assert back == [text.encode() for text in texts]


def test_a_word_with_an_unknown_character_is_one_unknown_id(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    ids = tokenizer.tokenize(["Deutsch Deut\U0001f9ffsch Deutsch"])
    assert (ids.values.numpy() == UNKNOWN_ID).sum() == 1
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"Deutsch Deutsch"]


def test_there_is_no_longest_word(tokenizers):
    word = "Donaudampfschiff" * 1000
    ids = tokenizers["wordpiece"].tokenize([word])
    assert tokenizers["wordpiece"].detokenize(ids).numpy().tolist() == [word.encode()]


def test_lower_case_is_an_option_that_is_kept(tokenizers, tmp_path):
    tokenizer = tokenizers["wordpiece_lowercase"]
    assert tokenizer.settings() == {"lowercase": True}
    back = tokenizer.detokenize(tokenizer.tokenize(["ÄNDERUNG  E\u0301 Λόγος ΛΌΓΟΣ"]))
    assert back.numpy()[0].decode() == "änderung é λόγος λόγος"


def test_a_first_piece_from_inside_a_word_joins_nothing():
    tokenizer = WordPieceTokenizer(["a", "##b"])
    assert tokenizer.detokenize([[5, 4, 5]]).numpy().tolist() == [b"b ab"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"the\nhouse\nthe\n",
            r"vocab\.txt:3: the piece 'the' is there already, as number 1\.",
        ),
        (b"the\n\nhouse\n", r"vocab\.txt:2: an empty piece \(''\)"),
        (b"the\n##\n", r"vocab\.txt:2: an empty piece \('##'\)"),
        (b"the\ntwo words\n", r"vocab\.txt:2: the piece 'two words' holds white space"),
        ("the\nno\u00a0break".encode(), r"vocab\.txt:2: the piece .* holds white space or U\+0000"),
        (b"nul\0\n", r"vocab\.txt:1: the piece .* holds white space or U\+0000"),
        (b"the\nh\xe4user\n", r"vocab\.txt:2: not UTF-8 \(invalid continuation byte\)"),
        (b"", r"vocab\.txt: no pieces\. Give one piece a line"),
    ],
)
def test_a_bad_vocabulary_file_is_refused_with_its_line(tmp_path, content, expected):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(UserError, match=expected):
        WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"vocab\.txt: cannot be read \(No such file or dir"):
        WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")


def test_a_file_may_come_from_another_editor(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbfthe\r\nhouse\r\n##s")
    tokenizer = WordPieceTokenizer.from_vocabulary_file(tmp_path / "vocab.txt")
    assert tokenizer.vocabulary()[4:] == ["the", "house", "##s"]
    assert tokenizer.hash == WordPieceTokenizer(["the", "house", "##s"]).hash


def test_a_duplicate_in_a_list_is_refused():
    with pytest.raises(UserError, match=r"`pieces`:2: the piece 'a' is there already, as number 1"):
        WordPieceTokenizer(["a", "a"])


def test_characters_without_a_place_are_a_warning(silent):
    lines = ["".join(chr(0x4E00 + number) for number in range(200))]
    with (
        pytest.warns(UserWarning, match="has room for 74 of the 200 characters of the text"),
        pytest.warns(UserWarning, match="asked for"),
    ):
        learn_tokenizer("wordpiece", lines, 300, progress=silent)


def test_punctuation_is_merged_with_nothing(silent):
    lines = ["(house). (house), house!"] * 9
    with pytest.warns(UserWarning, match="asked for"):
        tokenizer = learn_tokenizer("wordpiece", lines, 60, progress=silent)
    merged = [piece.removeprefix("##") for piece in tokenizer.vocabulary()[4:]]
    assert "house" in merged
    assert not [piece for piece in merged if len(piece) > 1 and not piece.isalpha()]


def learn_slowly(words, size):
    """The definition of the merges, counted anew before each."""
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
def test_the_learner_does_what_counting_anew_each_time_would_do(words, size, silent):
    assert learn_pieces(words, size, silent) == learn_slowly(words, size)
