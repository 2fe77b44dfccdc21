"""WordPiece: words, and pieces of the rarer ones."""

import codecs
import collections
import pathlib
import re

import tensorflow as tf

from keras_transformer.checks import require_boolean
from keras_transformer.errors import UserError
from keras_transformer.text.special_ids import FIRST_PIECE_ID, UNKNOWN_ID
from keras_transformer.text.tokenizer import Tokenizer, as_strings
from keras_transformer.text.wordpiece_learning import CONTINUATION, SMALLEST_SIZE, learn_pieces

# How tensorflow-text is told of the four special ids and of pieces inside a word. Both hold a
# space, and no word does, so that words such as "[UNK]" or "##ing" are words like others.
_SPECIALS = tuple(f"special {number}" for number in range(FIRST_PIECE_ID))
_INSIDE = " "
_NO_LIMIT = 2**31 - 1
_PASSAGES_AT_ONCE = 10_000
# Unicode's property White_Space. (tensorflow-text 2.21's own splitter leaves the first byte of a
# no-break space behind.)
_WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class WordPieceTokenizer(Tokenizer, registered_name="wordpiece"):
    """Cuts each word, from left to right, into the longest pieces that the vocabulary has.

    `detokenize` gives back the words with one space between them. The normalisation, in this order:

    1. bytes that are not UTF-8, and U+0000, become U+FFFD;
    2. Unicode normalisation form C, after lower-casing if `lowercase` is set;
    3. words are what stands between white space (Unicode's White_Space property), and are joined by
       one space.

    A word with a character that is not in the vocabulary is unknown as a whole: it becomes the id
    1, and is missing from what `detokenize` gives. If that must not happen, use SentencePiece or
    bytes.

    A piece inside a word is written with "##" before it. Punctuation is part of the word it touches
    ("house." is "house", "##."), so that the spacing of the text survives.

    Learn one with `learn_tokenizer("wordpiece", lines, vocabulary_size)`. Its option is
    `lowercase`, False by default.

    >>> tokenizer = WordPieceTokenizer(["the", "house", "##s", "##.", "t", "##h"])
    >>> tokenizer.tokenize(["the  houses."]).to_list()
    [[4, 5, 6, 7]]
    >>> tokenizer.detokenize([[4, 5, 6, 7]]).numpy()
    array([b'the houses.'], dtype=object)
    >>> tokenizer.tokenize(["the zoo"]).to_list()
    [[4, 1]]

    References: Schuster and Nakajima 2012, "Japanese and Korean voice search"; Song et al. 2021,
    "Fast WordPiece tokenization".

    Args:
        pieces: The pieces, those inside a word with "##"; the first has the id 4.
        lowercase: Whether texts are lower-cased first.
    """

    file_name = "vocabulary.txt"
    has_unknowns = True
    unknown_size = 1  # a whole word

    def __init__(self, pieces, lowercase=False):
        import tensorflow_text

        self._pieces = _checked(tuple(pieces), "`pieces`")
        self._lowercase = require_boolean("lowercase", lowercase)
        super().__init__(self._pieces)
        names = [_renamed(piece, inside=_INSIDE, start="") for piece in self._pieces]
        joinable = [_renamed(piece, inside="", start=" ") for piece in self._pieces]
        with tf.init_scope():
            self._matcher = tensorflow_text.FastWordpieceTokenizer(
                [*_SPECIALS, *names],
                suffix_indicator=_INSIDE,
                max_bytes_per_word=_NO_LIMIT,
                token_out_type=tf.int32,
                unknown_token=_SPECIALS[UNKNOWN_ID],
                no_pretokenization=True,
            )
            self._joinable = tf.constant(joinable)

    @classmethod
    def from_vocabulary_file(cls, path, lowercase=False):
        """Makes a tokenizer from a file: UTF-8, a piece a line, no specials; line 1 has id 4."""
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from error
        # As an editor may have left it.
        content = content.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
        return cls(_pieces_of_file(content, path), lowercase)

    def normalize(self, strings):
        return tf.strings.reduce_join(split_words(strings, self._lowercase), axis=-1, separator=" ")

    def _split(self, strings):
        words = split_words(strings, self._lowercase)
        return self._matcher.tokenize(words).merge_dims(-2, -1)

    def _join(self, ids):
        return self._join_spellings(ids.with_values(self._spell(ids.values)))

    def _spell(self, ids):
        """The text of pieces, with a space before those that start a word; nothing of others."""
        texts = tf.gather(self._joinable, tf.where(self._is_piece(ids), ids - FIRST_PIECE_ID, 0))
        return tf.where(self._is_piece(ids), texts, "")

    def _join_spellings(self, texts):
        return tf.strings.regex_replace(tf.strings.reduce_join(texts, axis=-1), r"\A ", "")

    def detokenize(self, ids, unknown=None):
        """As `Tokenizer.detokenize`; unknown tokens may be spelt otherwise.

        Args:
            ids: padded [B, T] or a `tf.RaggedTensor`.
            unknown: strings [B, T] that stand for the ids UNKNOWN where they are, such as the
                `spellings` of what they translate; by default they vanish.
        """
        if unknown is None:
            return super().detokenize(ids)
        ids = tf.cast(ids, tf.int32)
        return self._join_spellings(tf.where(ids == UNKNOWN_ID, unknown, self._spell(ids)))

    def spellings(self, strings):
        words = split_words(as_strings(strings), self._lowercase)
        ids = self._matcher.tokenize(words)  # [B, words, pieces]
        of_word = ids.values
        word_of_piece = tf.repeat(words.values, of_word.row_lengths())
        texts = tf.where(
            of_word.values == UNKNOWN_ID,
            tf.strings.join([" ", word_of_piece]),
            self._spell(of_word.values),
        )
        return ids.with_values(of_word.with_values(texts)).merge_dims(-2, -1)

    def word_sizes(self, words):
        """Words between white space: a word of the tree may hold several, or none."""
        sizes = split_words(words.values, self._lowercase).row_lengths()
        return words.with_values(tf.cast(sizes, tf.int32))

    def _sizes_of_pieces(self):
        return [0 if piece.startswith(CONTINUATION) else 1 for piece in self._pieces]

    def settings(self):
        return {"lowercase": self._lowercase}

    def to_bytes(self):
        return "".join(piece + "\n" for piece in self._pieces).encode()

    @classmethod
    def from_bytes(cls, content, settings, origin):
        return cls(_pieces_of_file(content, pathlib.Path(origin, cls.file_name)), **settings)

    @classmethod
    def learn(cls, read_passages, vocabulary_size, report, lowercase=False):
        require_boolean("lowercase", lowercase)
        if vocabulary_size < FIRST_PIECE_ID + SMALLEST_SIZE:
            raise UserError(
                f"`vocabulary_size` must be at least {FIRST_PIECE_ID + SMALLEST_SIZE} for "
                f"'wordpiece'; got {vocabulary_size}."
            )
        passages = read_passages()
        words = collections.Counter()
        for start in range(0, len(passages), _PASSAGES_AT_ONCE):
            batch = tf.constant(passages[start : start + _PASSAGES_AT_ONCE])
            words.update(split_words(batch, lowercase).values.numpy().tolist())
        words = {word.decode(): count for word, count in words.items()}
        return cls(learn_pieces(words, vocabulary_size - FIRST_PIECE_ID, report), lowercase)


def split_words(strings, lowercase):
    """Returns the normalised words of each string, a RaggedTensor [B, None]; a graph op."""
    import tensorflow_text

    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
    # `tf.strings.lower` stops at a U+0000, and no piece can hold one.
    strings = tf.strings.regex_replace(strings, r"\x00", "\ufffd")
    if lowercase:
        strings = tf.strings.lower(strings, encoding="utf-8")
    strings = tensorflow_text.normalize_utf8(strings, "NFC")
    return tf.strings.split(tf.strings.regex_replace(strings, f"[{_WHITE_SPACE}]", " "))


def _renamed(piece, inside, start):
    """The piece with `inside` in place of the "##" of a piece inside a word, and `start` else."""
    if piece.startswith(CONTINUATION):
        return inside + piece.removeprefix(CONTINUATION)
    return start + piece


def _pieces_of_file(content, path):
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}:{line}: not UTF-8 ({error.reason}). Save the file as UTF-8."
        ) from error
    if lines[-1] == "":
        del lines[-1]
    return _checked(tuple(lines), path)


def _checked(pieces, origin):
    """Returns `pieces` if each can be matched and is there once; errors name its number."""
    numbers = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece.removeprefix(CONTINUATION):
            raise UserError(f"{origin}:{number}: an empty piece ({piece!r}). Remove it.")
        if re.search(f"[\0{_WHITE_SPACE}]", piece):
            raise UserError(
                f"{origin}:{number}: the piece {piece!r} holds white space or U+0000, which no "
                "word does. Remove it."
            )
        if piece in numbers:
            raise UserError(
                f"{origin}:{number}: the piece {piece!r} is there already, as number "
                f"{numbers[piece]}. Remove one of the two."
            )
        numbers[piece] = number
    if not numbers:
        raise UserError(f"{origin}: no pieces. Give one piece a line.")
    return pieces
