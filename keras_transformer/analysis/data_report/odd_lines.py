"""Longest and oddest lines of a corpus, for the data report.

An odd line may be an error in the corpus. A kind of oddity that more than one line in twenty has is
normal for the corpus, as dates without letters are for the dates corpus: its lines are counted but
not listed.
"""

import collections
import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_transformer.data.corpora.corpus import Corpus, Tally
from keras_transformer.data.corpora.file_corpus import shorten
from keras_transformer.data.token_cache import TokenCache

# Number of characters at the beginning of a text that are examined.
_EXAMINED = 10_000

# A length ratio, or a number of tokens per character, this many times the median is odd, but not in
# lines with fewer tokens: "Oh!" may be translated by four words.
_FACTOR = 3
_LEAST_TOKENS = 10

_FEW_LETTERS = 0.5
_RARE_SCRIPT = 0.01

# U+FFFD, and characters of UTF-8 that was decoded as Latin-1 or Windows-1252: "Ã¼" for "ü".
_MISDECODED = re.compile("\ufffd|[ÂÃ][\x80-\xbf]|â€")

# The number of the script of a text without letters.
_NO_SCRIPT = 0

# Scripts that one language uses together.
_WRITTEN_TOGETHER = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


#: A kind of oddity: a short name, its meaning for the user, and the degree to which each line has
#: it, `[lines]`: 0 for a line that is not odd.
Oddity = tuple[str, str, np.ndarray]


class LineFeatures:
    """Features of examples, whose `numbers` are those in the cache: one compact array each.

    All arrays but `is_identical` are `[lines, columns]`.
    """

    def __init__(
        self, examples: Iterable[tuple[str, ...]], numbers: np.ndarray, cache: TokenCache
    ) -> None:
        columns = cache.sequence_columns
        shape = (len(numbers), len(columns))
        self.columns: list[str] = list(columns)
        self.tokens: np.ndarray = np.stack([c.spans(numbers)[1] for c in columns.values()], axis=1)
        self.characters: np.ndarray = np.zeros(shape, np.int64)
        self.words: np.ndarray = np.zeros(shape, np.int64)
        self.letter_share: np.ndarray = np.zeros(shape, np.float32)
        self.misdecoded: np.ndarray = np.zeros(shape, np.int64)
        self.script: np.ndarray = np.zeros(shape, np.int16)
        self.is_identical: np.ndarray = np.zeros(len(numbers), bool)
        scripts: dict[str | None, int] = {None: _NO_SCRIPT}
        for line, example in enumerate(examples):
            texts = example[: len(columns)]
            self.is_identical[line] = len(texts) == 2 and texts[0] == texts[1]
            for column, text in enumerate(texts):
                index, begin = (line, column), text[:_EXAMINED]
                letters = [character for character in begin if character.isalpha()]
                self.characters[index] = len(text)
                self.words[index] = len(text.split())
                self.letter_share[index] = len(letters) / max(sum(map(len, begin.split())), 1)
                self.misdecoded[index] = len(_MISDECODED.findall(begin))
                self.script[index] = scripts.setdefault(_main_script(letters), len(scripts))

    def ratio(self) -> np.ndarray:
        """Returns the target tokens per source token of each pair."""
        tokens = np.maximum(self.tokens, 1)
        return tokens[:, 1] / tokens[:, 0]

    def oddities(self) -> Iterator[Oddity]:
        """Yields an `Oddity` of each kind; a line is as odd as the odder of its texts."""
        is_long = self.tokens >= _LEAST_TOKENS
        if len(self.columns) == 2:
            degree = self.is_identical * self.characters[:, 0]
            yield "identical sides", "source and target are the same text", degree
            ratio = self.ratio()
            factor = np.exp(np.abs(np.log(ratio / np.median(ratio))))
            yield (
                "length ratio",
                f"target tokens per source token are {_FACTOR} times the median, or a third of it",
                is_long.any(axis=1) * (factor >= _FACTOR) * factor,
            )
        # For each column the share of lines with another main script.
        others = [1 - np.bincount(column)[column] / len(column) for column in self.script.T]
        rarity = np.where(self.script == _NO_SCRIPT, 0, np.stack(others, axis=1)).max(axis=1)
        yield (
            "other script",
            f"most letters belong to a script that fewer than {_RARE_SCRIPT:.0%} of the lines use",
            (rarity > 1 - _RARE_SCRIPT) * rarity,
        )
        letters = self.letter_share.min(axis=1)
        yield (
            "few letters",
            "more than half of the characters are digits, punctuation or symbols",
            (letters < _FEW_LETTERS) * (1.0 - letters),
        )
        per_character = self.tokens / self.characters
        factor = np.where(is_long, per_character / np.median(per_character, axis=0), 0).max(axis=1)
        yield (
            "hard to spell",
            f"tokens per character are {_FACTOR} times the median: another language, or noise",
            (factor >= _FACTOR) * factor,
        )
        yield (
            "wrong decoding",
            "U+FFFD, or characters such as Ã¼ of UTF-8 that was decoded as Latin-1",
            self.misdecoded.sum(axis=1),
        )


def _main_script(letters: Sequence[str]) -> str | None:
    """Returns the script of most letters; None if there are no letters.

    >>> _main_script("Hallo Привет"[6:]), _main_script("")
    ('CYRILLIC', None)
    """
    found = collections.Counter(map(_script, letters)).most_common(1)
    return found[0][0] if found else None


@functools.lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    # The standard library has no table of scripts, but the names of characters begin with them.
    script = unicodedata.name(letter, "").partition(" ")[0]
    return _WRITTEN_TOGETHER.get(script, script)


# Examining characters takes about 20 µs per text: of more examples than this, only every n-th is
# examined.
SAMPLE = 200_000

LONGEST_LISTED = 5
ODD_LISTED = 3

_SHOWN = 200  # characters
_USUAL_SHARE = 0.05


def describe_lines(corpus: Corpus, cache: TokenCache) -> dict[str, Any]:
    """Returns the longest and the oddest lines of a corpus and its cache, in JSON's types.

    `sample` has the number of examples that were examined for everything but `longest`. The `place`
    of a line is file:number; for parallel files that of the target, for a document of several lines
    that of its end.
    """
    step = -(-len(cache) // SAMPLE)
    numbers = np.arange(0, len(cache), step)
    features = LineFeatures(itertools.islice(corpus, 0, None, step), numbers, cache)
    longest = _longest(cache)
    sums = (features.tokens, features.words, features.characters)
    totals = zip(features.columns, *(each.sum(axis=0).tolist() for each in sums), strict=True)
    ratio = None
    if len(features.columns) == 2:
        percentiles = np.percentile(features.ratio(), (1, 50, 99)).tolist()
        ratio = dict(zip(("percentile_1", "median", "percentile_99"), percentiles, strict=True))
    odd = [_describe_oddity(*oddity, numbers) for oddity in features.oddities()]
    lines = _find_lines(corpus, cache, {*longest, *(n for part in odd for n in part["lines"])})
    return {
        "sample": {"examples": len(numbers), "every": step},
        "columns": {
            name: {
                "tokens_per_word": tokens / words,
                "characters_per_token": characters / max(tokens, 1),
            }
            for name, tokens, words, characters in totals
        },
        "target_tokens_per_source_token": ratio,
        "longest": [lines[number] for number in longest],
        "odd": [{**part, "lines": [lines[number] for number in part["lines"]]} for part in odd],
    }


def _longest(cache: TokenCache) -> list[int]:
    """Returns the numbers of the examples with the most tokens on one side, the longest first."""
    numbers = longest = np.zeros(0, np.int64)
    first = 0
    for lengths in cache.iterate_lengths():
        longest = np.concatenate([longest, lengths.max(axis=1)])
        numbers = np.concatenate([numbers, np.arange(first, first + len(lengths))])
        best = np.argsort(-longest, kind="stable")[:LONGEST_LISTED]
        longest, numbers = longest[best], numbers[best]
        first += len(lengths)
    return numbers.tolist()


def _describe_oddity(
    kind: str, meaning: str, degree: np.ndarray, numbers: np.ndarray
) -> dict[str, Any]:
    """Returns a description of an `Oddity` with the numbers of the oddest examples as `lines`."""
    odd = np.flatnonzero(degree)
    is_usual = len(odd) > max(ODD_LISTED, _USUAL_SHARE * len(numbers))
    oddest = odd[np.argsort(-degree[odd], kind="stable")][:ODD_LISTED]
    return {
        "kind": kind,
        "meaning": meaning,
        "count": len(odd),
        "is_usual": is_usual,
        "lines": [] if is_usual else numbers[oddest].tolist(),
    }


def _find_lines(
    corpus: Corpus, cache: TokenCache, wanted: Collection[int]
) -> dict[int, dict[str, Any]]:
    """Reads the corpus until all wanted examples are found; returns number → place and texts."""
    lines: dict[int, dict[str, Any]] = {}
    tally = Tally()
    for number, example in enumerate(corpus.read(tally)):
        if len(lines) == len(wanted):
            break
        if number in wanted:
            columns, one = cache.sequence_columns.items(), np.array([number])
            texts = (shorten(text, _SHOWN) for text in example)
            lines[number] = {
                "place": tally.where,
                "tokens": {name: int(column.spans(one)[1][0]) for name, column in columns},
                "texts": dict(zip(corpus.columns, texts, strict=True)),
            }
    return lines
