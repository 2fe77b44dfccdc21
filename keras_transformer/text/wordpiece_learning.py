"""Learning the pieces of words by merging neighbours."""

import collections
import heapq
import itertools
import unicodedata
import warnings

CONTINUATION = "##"
# A pair seen once teaches nothing: its merge would only copy a word of the text.
SMALLEST_COUNT = 2
LONGEST_PIECE = 16
REPORT_EVERY = 500
# Characters get at most a quarter of the places: below this, none.
SMALLEST_SIZE = 4


def learn_pieces(words, size, report):
    """Returns at most `size` pieces: first the characters, then what merging neighbours gives.

    Every character is there twice, as the start of a word ("a") and inside one ("##a"), so that any
    word made of them can be spelt. They take at most half of the places, the most frequent first.
    Then the two neighbouring pieces that stand together most often are made one, again and again
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
    """The neighbours in all segments, kept up to date from merge to merge.

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
