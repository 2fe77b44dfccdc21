"""WordPiece tokenizer: its graph operations, vocabulary files, and learning of pieces."""

import codecs
import collections
import heapq
import itertools
import pathlib
import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_transformer._utils.checks import require_boolean
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.types import Path
from keras_transformer.text.special_ids import SpecialIds
from keras_transformer.text.tokenizer import Ids, Report, Strings, Tokenizer, as_strings

#: Prefix of a piece inside a word.
CONTINUATION = "##"
# Pieces of the smallest vocabulary: characters get at most a quarter of it, and need one.
_SMALLEST_SIZE = 4
#: A pair that occurs once is not merged: the merge would only copy a word of the text.
_SMALLEST_COUNT = 2
_LONGEST_PIECE = 16
_REPORT_EVERY = 500
_PASSAGES_AT_ONCE = 10_000

# Names of special ids and of pieces inside a word in tensorflow-text's vocabulary. No word contains
# their space, so that words such as "[UNK]" or "##ing" are ordinary words.
_SPECIAL = "special {}"
_INSIDE = " "
# Unicode's White_Space property. (tensorflow-text 2.21's own splitter leaves the first byte of a
# no-break space behind.)
_WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class WordPieceTokenizer(Tokenizer, registered_name="wordpiece"):
    """Tokenizer that splits each word, from left to right, into the longest known pieces.

    `detokenize` joins the words with one space. The text is normalized first:

    1. bytes that are not UTF-8, and U+0000, become U+FFFD;
    2. Unicode normalization form C, after lower-casing if `lowercase` is set;
    3. words are separated by white space (Unicode's White_Space property) and joined with a space.

    A word with a character that is not in the vocabulary becomes one unknown id, which `detokenize`
    leaves out. Use SentencePiece or bytes if every text must be restored.

    A piece inside a word is written with "##" before it. Punctuation belongs to the word that it
    touches ("house." is "house", "##."), which preserves the spacing of the text.

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
        pieces: Pieces in the order of their ids, those inside a word with "##". They take the ids
            that are not special; by default the first has id 4.
        lowercase: Whether texts are lower-cased first.
        special_ids: Defaults to `SpecialIds()`.
    """

    file_name: ClassVar[str | None] = "vocabulary.txt"
    has_unknowns: ClassVar[bool] = True
    unknown_size: ClassVar[int] = 1  # one word

    def __init__(
        self, pieces: Iterable[str], lowercase: bool = False, special_ids: SpecialIds | None = None
    ) -> None:
        self._pieces = _check_pieces(tuple(pieces), "`pieces`")
        self._lowercase = require_boolean("lowercase", lowercase)
        super().__init__(self._pieces, special_ids)
        names: list[str | None] = [None] * self.vocabulary_size
        texts = [""] * self.vocabulary_size
        for number, piece in zip(self.piece_ids, self._pieces, strict=True):
            text, is_inside = piece.removeprefix(CONTINUATION), piece.startswith(CONTINUATION)
            names[number] = piece
            texts[number] = text if is_inside else " " + piece
        with tf.init_scope():
            self._matcher: Any = make_matcher(names, self.special_ids.unknown)
            self._texts = tf.constant(texts)  # [V], empty for special ids

    @classmethod
    def from_vocabulary_file(
        cls, path: Path, lowercase: bool = False, special_ids: SpecialIds | None = None
    ) -> Self:
        """Returns a tokenizer with the vocabulary of a file.

        Args:
            path: UTF-8 file with a piece a line, without special tokens, in the order of their ids.
            lowercase: Whether texts are lower-cased first.
            special_ids: Defaults to `SpecialIds()`.
        """
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"cannot be read ({error.strerror}).", where=path) from error
        # Editors may add a byte order mark and carriage returns.
        content = content.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
        return cls(_read_pieces(content, path), lowercase, special_ids)

    def normalize(self, strings: Strings) -> tf.Tensor:
        return tf.strings.reduce_join(split_words(strings, self._lowercase), axis=-1, separator=" ")

    def _split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = split_words(strings, self._lowercase)
        return self._matcher.tokenize(words).merge_dims(-2, -1)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._join_spellings(ids.with_values(self._spell(ids.values)))

    def _spell(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts of ids, with a space before pieces that start a word."""
        is_known = (ids >= 0) & (ids < self.vocabulary_size)
        return tf.gather(self._texts, tf.where(is_known, ids, self.special_ids.padding))

    def _join_spellings(self, texts: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.regex_replace(tf.strings.reduce_join(texts, axis=-1), r"\A ", "")

    def detokenize(self, ids: Ids, unknown: tf.Tensor | None = None) -> tf.Tensor:
        if unknown is None:
            return super().detokenize(ids)
        ids = tf.cast(ids, tf.int32)
        is_unknown = ids == self.special_ids.unknown
        return self._join_spellings(tf.where(is_unknown, unknown, self._spell(ids)))

    def spellings(self, strings: Strings) -> tf.RaggedTensor:
        words = split_words(as_strings(strings), self._lowercase)
        ids = self._matcher.tokenize(words)  # [B, words, pieces]
        of_word = ids.values
        word_of_piece = tf.repeat(words.values, of_word.row_lengths())
        is_unknown = of_word.values == self.special_ids.unknown
        as_in_text = tf.strings.join([" ", word_of_piece])
        texts = tf.where(is_unknown, as_in_text, self._spell(of_word.values))
        return ids.with_values(of_word.with_values(texts)).merge_dims(-2, -1)

    def word_sizes(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the number of words between white space in each word of a tree."""
        sizes = split_words(words.values, self._lowercase).row_lengths()
        return words.with_values(tf.cast(sizes, tf.int32))

    def _sizes_of_pieces(self) -> list[int]:
        return [0 if piece.startswith(CONTINUATION) else 1 for piece in self._pieces]

    def settings(self) -> dict[str, Any]:
        return {"lowercase": self._lowercase}

    def to_bytes(self) -> bytes:
        return "".join(piece + "\n" for piece in self._pieces).encode()

    @classmethod
    def from_bytes(cls, content: bytes, settings: dict[str, Any], special_ids: SpecialIds) -> Self:
        return cls(_read_pieces(content, str(cls.file_name)), **settings, special_ids=special_ids)

    @classmethod
    def check_learning(cls, size: int, special_ids: SpecialIds, lowercase: bool = False) -> None:
        require_boolean("lowercase", lowercase)
        smallest = len(special_ids.ids) + _SMALLEST_SIZE
        if size < smallest:
            raise ArgumentError("vocabulary_size", f"at least {smallest} for 'wordpiece'", size)

    @classmethod
    def learn(
        cls,
        passages: list[str],
        size: int,
        special_ids: SpecialIds,
        report: Report,
        lowercase: bool = False,
    ) -> Self:
        words = collections.Counter()
        for start in range(0, len(passages), _PASSAGES_AT_ONCE):
            batch = tf.constant(passages[start : start + _PASSAGES_AT_ONCE])
            words.update(split_words(batch, lowercase).values.numpy().tolist())
        counts = {word.decode(): count for word, count in words.items()}
        pieces = learn_pieces(counts, size - len(special_ids.ids), report)
        return cls(pieces, lowercase, special_ids)


def make_matcher(pieces: Sequence[str | None], unknown: int) -> Any:
    """Returns the operation of tensorflow-text that splits words into pieces.

    Args:
        pieces: Piece of each id, those inside a word with "##"; None for ids that no word has.
        unknown: Id of words that cannot be split.
    """
    import tensorflow_text

    names = [_SPECIAL.format(number) for number in range(len(pieces))]
    for number, piece in enumerate(pieces):
        if piece is not None:
            text = piece.removeprefix(CONTINUATION)
            names[number] = piece if text == piece else _INSIDE + text
    return tensorflow_text.FastWordpieceTokenizer(
        names,
        suffix_indicator=_INSIDE,
        max_bytes_per_word=2**31 - 1,  # no limit
        token_out_type=tf.int32,
        unknown_token=_SPECIAL.format(unknown),
        no_pretokenization=True,
    )


def split_words(strings: Strings, lowercase: bool) -> tf.RaggedTensor:
    """Returns the normalized words `[B, None]` of strings `[B]`."""
    import tensorflow_text

    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
    # `tf.strings.lower` stops at a U+0000, and no piece can hold one.
    strings = tf.strings.regex_replace(strings, r"\x00", "\ufffd")
    if lowercase:
        strings = tf.strings.lower(strings, encoding="utf-8")
    strings = tensorflow_text.normalize_utf8(strings, "NFC")
    return tf.strings.split(tf.strings.regex_replace(strings, f"[{_WHITE_SPACE}]", " "))


def _read_pieces(content: bytes, path: Path) -> tuple[str, ...]:
    """Returns the pieces of a vocabulary file."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem, fix = f"not UTF-8 ({error.reason}).", "Save the file as UTF-8."
        raise UserError(problem, where=f"{path}:{line}", fix=fix) from error
    return _check_pieces(tuple(lines[:-1] if lines[-1] == "" else lines), path)


def _check_pieces(pieces: tuple[str, ...], origin: Path) -> tuple[str, ...]:
    """Returns `pieces` if each can be matched and occurs once; errors give its number."""
    numbers: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        problem = None
        if not piece.removeprefix(CONTINUATION):
            problem = f"an empty piece ({piece!r})."
        elif re.search(f"[\0{_WHITE_SPACE}]", piece):
            problem = f"the piece {piece!r} contains white space or U+0000, which no word does."
        elif piece in numbers:
            problem = f"the piece {piece!r} repeats number {numbers[piece]}."
        if problem is not None:
            raise UserError(problem, where=f"{origin}:{number}", fix="Remove it.")
        numbers[piece] = number
    if not numbers:
        raise UserError("no pieces.", where=origin, fix="Give one piece a line.")
    return pieces


def learn_pieces(words: Mapping[str, int], size: int, report: Report) -> list[str]:
    """Returns at most `size` pieces: the characters, then the results of merging neighbors.

    Every character is a piece at the start of a word ("a") and inside one ("##a"). Characters take
    at most half of the vocabulary, the most frequent first. Then the most frequent pair of
    neighboring pieces is merged, repeatedly (Sennrich et al. 2016, section 3.2). Punctuation and
    symbols are never merged, so that "house" and "house." share their pieces. Ties are broken by
    the order of the characters: the same words always give the same pieces.

    >>> learn_pieces({"low": 5, "lower": 2, "low.": 1}, 28, lambda *_: None)[12:]
    ['##ow', 'low', '##er', 'lower']
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = ranked[: size // 4]
    if len(alphabet) < len(ranked):
        problem = f"The vocabulary has room for {len(alphabet)} of the {len(ranked)} characters"
        fix = "Request a larger one, or use 'sentencepiece', which spells them in bytes."
        warnings.warn(f"{problem}; words with rarer ones will be unknown. {fix}", stacklevel=2)
    # A dictionary keeps the order and drops duplicates: two merges may give the same piece.
    forms = [[character, CONTINUATION + character] for character in alphabet]
    pieces = dict.fromkeys(itertools.chain.from_iterable(forms))
    merges = _Merges(_segments(words, set(alphabet)))
    while len(pieces) < size and (piece := merges.next_piece()) is not None:
        pieces[piece] = None
        if len(pieces) % _REPORT_EVERY == 0:
            report("Merging pieces", len(pieces), size)
    return list(pieces)


def _segments(words: Mapping[str, int], alphabet: set[str]) -> collections.Counter[tuple[str, ...]]:
    """Counts the runs of characters that may be merged, as tuples of their pieces."""
    segments: collections.Counter[tuple[str, ...]] = collections.Counter()
    for word, count in words.items():
        if not alphabet.issuperset(word):
            continue  # the whole word will be unknown
        forms = [word[0], *(CONTINUATION + character for character in word[1:])]
        start = 0
        for end in range(1, len(word) + 1):
            is_cut = end == len(word) or _stands_alone(word[end - 1]) or _stands_alone(word[end])
            if is_cut or end - start == _LONGEST_PIECE:
                segments[tuple(forms[start:end])] += count
                start = end
    return segments


def _stands_alone(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


class _Merges:
    """Counts of the pairs of neighbors in all segments, updated by each merge."""

    def __init__(self, segments: Mapping[tuple[str, ...], int]) -> None:
        self._segments = [list(segment) for segment in segments]
        self._weights = list(segments.values())
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._places: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
        for index, weight in enumerate(self._weights):
            for pair in itertools.pairwise(self._segments[index]):
                self._counts[pair] += weight
                self._places[pair].add(index)
        # The most frequent pair comes first. Outdated entries are corrected when they are popped.
        self._queue = [(-count, pair) for pair, count in self._counts.items()]
        heapq.heapify(self._queue)

    def next_piece(self) -> str | None:
        """Merges the most frequent pair and returns the new piece; None if all pairs are rare."""
        while self._queue:
            queued, pair = heapq.heappop(self._queue)
            count = self._counts[pair]
            if count < _SMALLEST_COUNT:
                continue
            if count == -queued:
                return self._merge(pair)
            heapq.heappush(self._queue, (-count, pair))
        return None

    def _merge(self, pair: tuple[str, str]) -> str:
        merged = pair[0] + pair[1][len(CONTINUATION) :]
        grown = set()
        for index in self._places.pop(pair):
            weight = self._weights[index]
            for old in itertools.pairwise(self._segments[index]):
                self._counts[old] -= weight
            self._segments[index] = _replace_pair(self._segments[index], pair, merged)
            for new in itertools.pairwise(self._segments[index]):
                self._counts[new] += weight
                if merged in new:
                    self._places[new].add(index)
                    grown.add(new)
        for new in grown:
            heapq.heappush(self._queue, (-self._counts[new], new))
        return merged


def _replace_pair(segment: list[str], pair: tuple[str, str], merged: str) -> list[str]:
    """Returns the segment with `merged` in place of each `pair`."""
    joined = []
    for piece in segment:
        if joined and (joined[-1], piece) == pair:
            joined[-1] = merged
        else:
            joined.append(piece)
    return joined
