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
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.data.corpora.corpus import Corpus, Tally
from keras_transformer.data.corpora.text_file import shorten
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


class Oddity(NamedTuple):
    """A kind of oddity, and the lines that have it.

    Attributes:
        kind: A short name.
        meaning: Its meaning, for the user.
        is_odd: Whether each line has it, `bool [lines]`.
        degree: Degree of the oddity, `[lines]`; largest for the oddest line.
    """

    kind: str
    meaning: str
    is_odd: np.ndarray
    degree: np.ndarray


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
            for column, text in enumerate(texts):
                self._measure((line, column), text, scripts)
            self.is_identical[line] = len(texts) == 2 and texts[0] == texts[1]

    def _measure(self, index: tuple[int, int], text: str, scripts: dict[str | None, int]) -> None:
        self.characters[index] = len(text)
        self.words[index] = len(text.split())
        text = text[:_EXAMINED]
        letters = [character for character in text if character.isalpha()]
        self.letter_share[index] = len(letters) / max(sum(map(len, text.split())), 1)
        self.misdecoded[index] = len(_MISDECODED.findall(text))
        self.script[index] = scripts.setdefault(_main_script(letters), len(scripts))

    def describe_columns(self) -> dict[str, dict[str, float]]:
        """Returns tokens per word and characters per token of each column."""
        sums = (array.sum(axis=0).tolist() for array in (self.tokens, self.words, self.characters))
        return {
            name: {
                "tokens_per_word": tokens / words,
                "characters_per_token": characters / max(tokens, 1),
            }
            for name, tokens, words, characters in zip(self.columns, *sums, strict=True)
        }

    def describe_ratio(self) -> dict[str, float] | None:
        """Returns percentiles of target tokens per source token; None if there are no pairs."""
        if len(self.columns) != 2:
            return None
        percentiles = np.percentile(self._ratio(), (1, 50, 99)).tolist()
        return dict(zip(("percentile_1", "median", "percentile_99"), percentiles, strict=True))

    def _ratio(self) -> np.ndarray:
        tokens = np.maximum(self.tokens, 1)
        return tokens[:, 1] / tokens[:, 0]

    def oddities(self) -> Iterator[Oddity]:
        """Yields an `Oddity` of each kind."""
        if len(self.columns) == 2:
            yield Oddity(
                "identical sides",
                "source and target are the same text",
                self.is_identical,
                self.characters[:, 0],
            )
            ratio = self._ratio()
            factor = np.exp(np.abs(np.log(ratio / np.median(ratio))))
            is_long = self.tokens.max(axis=1) >= _LEAST_TOKENS
            yield Oddity(
                "length ratio",
                f"target tokens per source token are {_FACTOR} times the median, or a third of it",
                is_long & (factor >= _FACTOR),
                factor,
            )
        yield from self._oddities_of_texts()

    def _oddities_of_texts(self) -> Iterator[Oddity]:
        """Yields the oddities of single texts; a line is as odd as the odder of its sides."""
        # For each column the share of lines with another main script.
        others = [1 - np.bincount(column)[column] / len(column) for column in self.script.T]
        rarity = np.where(self.script == _NO_SCRIPT, 0, np.stack(others, axis=1)).max(axis=1)
        yield Oddity(
            "other script",
            f"most letters belong to a script that fewer than {_RARE_SCRIPT:.0%} of the lines use",
            rarity > 1 - _RARE_SCRIPT,
            rarity,
        )
        letters = self.letter_share.min(axis=1)
        yield Oddity(
            "few letters",
            "more than half of the characters are digits, punctuation or symbols",
            letters < _FEW_LETTERS,
            -letters,
        )
        per_character = self.tokens / self.characters
        factor = np.where(
            self.tokens >= _LEAST_TOKENS, per_character / np.median(per_character, axis=0), 0
        ).max(axis=1)
        yield Oddity(
            "hard to spell",
            f"tokens per character are {_FACTOR} times the median: another language, or noise",
            factor >= _FACTOR,
            factor,
        )
        misdecoded = self.misdecoded.sum(axis=1)
        yield Oddity(
            "wrong decoding",
            "U+FFFD, or characters such as Ã¼ of UTF-8 that was decoded as Latin-1",
            misdecoded > 0,
            misdecoded,
        )


def _main_script(letters: Sequence[str]) -> str | None:
    """Returns the script of most letters; None if there are no letters.

    >>> _main_script("Hallo Привет"[6:]), _main_script("")
    ('CYRILLIC', None)
    """
    if not letters:
        return None
    return collections.Counter(map(_script, letters)).most_common(1)[0][0]


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

    Returns:
        A dictionary: `sample` has the number of examples that were examined for everything but
        `longest`; `columns` has, for each column of text, `tokens_per_word` and
        `characters_per_token`; `target_tokens_per_source_token` has percentiles for pairs, or is
        None; `longest` is a list of lines; `odd` is a list of kinds of oddities, each with its
        `lines`. The `place` of a line is file:number; for parallel files that of the target, for a
        document of several lines that of its end.
    """
    step = -(-len(cache) // SAMPLE)
    numbers = np.arange(0, len(cache), step)
    features = LineFeatures(itertools.islice(corpus, 0, None, step), numbers, cache)
    longest = _longest(cache)
    odd = [_describe_oddity(oddity, numbers) for oddity in features.oddities()]
    lines = _find_lines(corpus, cache, {*longest, *(n for part in odd for n in part["lines"])})
    return {
        "sample": {"examples": len(numbers), "every": step},
        "columns": features.describe_columns(),
        "target_tokens_per_source_token": features.describe_ratio(),
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


def _describe_oddity(oddity: Oddity, numbers: np.ndarray) -> dict[str, Any]:
    """Returns a description with the numbers of the oddest examples as `lines`."""
    odd = np.flatnonzero(oddity.is_odd)
    is_usual = len(odd) > max(ODD_LISTED, _USUAL_SHARE * len(numbers))
    oddest = odd[np.argsort(-oddity.degree[odd], kind="stable")][:ODD_LISTED]
    return {
        "kind": oddity.kind,
        "meaning": oddity.meaning,
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
            tokens = {
                name: int(column.spans(np.array([number]))[1][0])
                for name, column in cache.sequence_columns.items()
            }
            texts = dict(
                zip(corpus.columns, (shorten(text, _SHOWN) for text in example), strict=True)
            )
            lines[number] = {"place": tally.where, "tokens": tokens, "texts": texts}
    return lines
