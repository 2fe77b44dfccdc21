"""Learning the pieces of words by merging neighbors."""

import codecs
import collections
import heapq
import itertools
import pathlib
import re
import unicodedata
import warnings

import tensorflow as tf

from keras_transformer._utils.checks import require_boolean
from keras_transformer._utils.errors import UserError
from keras_transformer.text.tokenizer import FIRST_PIECE_ID, UNKNOWN_ID, Tokenizer, as_strings

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

    `detokenize` gives back the words with one space between them. The normalization, in this order:

    1. bytes that are not UTF-8, and U+0000, become U+FFFD;
    2. Unicode normalization form C, after lower-casing if `lowercase` is set;
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
    """Returns the normalized words of each string, a RaggedTensor [B, None]; a graph op."""
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


CONTINUATION = "##"
# A pair seen once teaches nothing: its merge would only copy a word of the text.
SMALLEST_COUNT = 2
LONGEST_PIECE = 16
REPORT_EVERY = 500
# Characters get at most a quarter of the places: below this, none.
SMALLEST_SIZE = 4


def learn_pieces(words, size, report):
    """Returns at most `size` pieces: first the characters, then what merging neighbors gives.

    Every character is there twice, as the start of a word ("a") and inside one ("##a"), so that any
    word made of them can be spelt. They take at most half of the places, the most frequent first.
    Then the two neighboring pieces that stand together most often are made one, again and again
    (Sennrich et al. 2016, section 3.2). Punctuation and symbols are merged with nothing, so that
    "house" and "house." share their pieces. Equal counts are settled by the order of the
    characters: the same words always give the same pieces.

    >>> learn_pieces({"low": 5, "lower": 2, "low.": 1}, 28, lambda *_: None)[12:]
    ['##ow', 'low', '##er', 'lower']

    Args:
        words: A mapping from each word, a string without spaces, to how often it occurs.
        size: The most pieces to return.
        report: A callable `report(stage, done, total)`.
    """
    counts = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = ranked[: size // 4]
    if len(alphabet) < len(ranked):
        warnings.warn(
            f"A vocabulary of this size has room for {len(alphabet)} of the {len(ranked)} "
            "characters of the text; words with one of the others, all rarer, will be unknown. Ask "
            "for a larger vocabulary, or use 'sentencepiece', which spells them in bytes.",
            stacklevel=2,
        )
    # A dictionary keeps the order, and takes in once what two different merges give.
    pieces = dict.fromkeys(
        form for character in alphabet for form in (character, CONTINUATION + character)
    )
    merges = _Merges(_segments(words, set(alphabet)))
    while len(pieces) < size and (piece := merges.next_piece()) is not None:
        pieces[piece] = None
        if len(pieces) % REPORT_EVERY == 0:
            report("Merging pieces", len(pieces), size)
    return list(pieces)


def _segments(words, alphabet):
    """Counts the runs of characters that may grow together, as tuples of their pieces."""
    segments = collections.Counter()
    for word, count in words.items():
        if not alphabet.issuperset(word):
            continue  # It will be unknown, with all its pieces.
        forms = [word[0], *(CONTINUATION + character for character in word[1:])]
        start = 0
        for end in range(1, len(word) + 1):
            is_cut = end == len(word) or _stands_alone(word[end - 1]) or _stands_alone(word[end])
            if is_cut or end - start == LONGEST_PIECE:
                segments[tuple(forms[start:end])] += count
                start = end
    return segments


def _stands_alone(character):
    return unicodedata.category(character)[0] in "PS"


class _Merges:
    """The neighbors in all segments, kept up to date from merge to merge.

    Args:
        segments: A mapping from tuples of pieces to how often they occur.
    """

    def __init__(self, segments):
        self._segments = [list(segment) for segment in segments]
        self._weights = list(segments.values())
        self._counts = collections.Counter()
        self._places = collections.defaultdict(set)
        for index, weight in enumerate(self._weights):
            for pair in itertools.pairwise(self._segments[index]):
                self._counts[pair] += weight
                self._places[pair].add(index)
        # The most frequent pair comes first. Entries may be out of date: they are put right when
        # they come up.
        self._queue = [(-count, pair) for pair, count in self._counts.items()]
        heapq.heapify(self._queue)

    def next_piece(self):
        """Merges the most frequent pair and returns the piece it became; None if all are rare."""
        while self._queue:
            queued, pair = heapq.heappop(self._queue)
            count = self._counts[pair]
            if count < SMALLEST_COUNT:
                continue
            if count == -queued:
                return self._merge(pair)
            heapq.heappush(self._queue, (-count, pair))
        return None

    def _merge(self, pair):
        merged = pair[0] + pair[1][len(CONTINUATION) :]
        grown = set()
        for index in self._places.pop(pair):
            weight = self._weights[index]
            for old in itertools.pairwise(self._segments[index]):
                self._counts[old] -= weight
            self._segments[index] = _joined(self._segments[index], pair, merged)
            for new in itertools.pairwise(self._segments[index]):
                self._counts[new] += weight
                if merged in new:
                    self._places[new].add(index)
                    grown.add(new)
        for new in grown:
            heapq.heappush(self._queue, (-self._counts[new], new))
        return merged


def _joined(segment, pair, merged):
    """The segment with `merged` in every place where it had `pair`."""
    joined = []
    for piece in segment:
        if joined and (joined[-1], piece) == pair:
            joined[-1] = merged
        else:
            joined.append(piece)
    return joined
