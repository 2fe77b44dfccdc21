"""The longest and the oddest lines of a corpus, for the data report: what a person should look at.

Odd is what is likely to be a mistake of those who made the corpus. A kind of oddity that more than
one line in twenty has is the nature of the corpus (the dates of the quick start have no letters on
the target side): it is counted, but its lines are not listed.
"""

import collections
import dataclasses
import functools
import itertools
import re
import unicodedata

import numpy as np

from keras_transformer.data.corpora.text_file import Tally

# Of a longer text, a document say, only the beginning is looked at.
_LOOKED_AT = 10_000

# A length ratio, or a number of tokens per character, this many times the usual one is odd, but
# not in lines with fewer tokens: "Oh!" may well become four words.
_FACTOR = 3
_LEAST_TOKENS = 10

_FEW_LETTERS = 0.5
_RARE_SCRIPT = 0.01

# U+FFFD, and what UTF-8 looks like when it was read as Latin-1 or Windows-1252: "Ã¼" for "ü".
_MISDECODED = re.compile("\ufffd|[ÂÃ][\x80-\xbf]|â€")

# The number of the script of a text without letters.
_NO_SCRIPT = 0

# Scripts that are written together in one language.
_WRITTEN_TOGETHER = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


@dataclasses.dataclass(frozen=True)
class Oddity:
    """A kind of oddity, and which lines have it.

    Attributes:
        kind: a short name.
        meaning: what it means, for a person.
        is_odd: whether each line has it, `bool [lines]`.
        degree: how much of it, `float [lines]`; the oddest line has the most.
    """

    kind: str
    meaning: str
    is_odd: np.ndarray
    degree: np.ndarray


class LineFeatures:
    """Features of lines, one array each, so that hundreds of thousands of lines fit into memory.

    Build it with `LineFeatures.of`. All arrays but `is_identical` are `[lines, columns]`.
    """

    def __init__(self, columns, count):
        shape = (count, len(columns))
        self.columns = columns
        self.tokens = np.zeros(shape, np.int64)
        self.characters = np.zeros(shape, np.int64)
        self.words = np.zeros(shape, np.int64)
        self.letter_share = np.zeros(shape, np.float32)
        self.misdecoded = np.zeros(shape, np.int64)
        self.script = np.zeros(shape, np.int16)
        self.is_identical = np.zeros(count, bool)

    @classmethod
    def of(cls, examples, numbers, cache):
        """Measures examples.

        Args:
            examples: an iterable of the examples, tuples of texts.
            numbers: the number of each in the cache, an array.
            cache: the `TokenCache`.
        """
        features = cls(list(cache.sequence_columns), len(numbers))
        scripts = {None: _NO_SCRIPT}
        for column, token_column in enumerate(cache.sequence_columns.values()):
            features.tokens[:, column] = token_column.spans(numbers)[1]
        for line, example in enumerate(examples):
            texts = example[: len(features.columns)]
            for column, text in enumerate(texts):
                features._measure((line, column), text, scripts)
            features.is_identical[line] = len(texts) == 2 and texts[0] == texts[1]
        return features

    def _measure(self, place, text, scripts):
        self.characters[place] = len(text)
        self.words[place] = len(text.split())
        text = text[:_LOOKED_AT]
        letters = [character for character in text if character.isalpha()]
        self.letter_share[place] = len(letters) / max(sum(map(len, text.split())), 1)
        self.misdecoded[place] = len(_MISDECODED.findall(text))
        self.script[place] = scripts.setdefault(_main_script(letters), len(scripts))

    def describe_columns(self):
        """Returns of each column how tokens compare with words and characters."""
        tokens, words, characters = (
            array.sum(axis=0).tolist() for array in (self.tokens, self.words, self.characters)
        )
        return {
            name: {
                "tokens_per_word": tokens[column] / words[column],
                "characters_per_token": characters[column] / max(tokens[column], 1),
            }
            for column, name in enumerate(self.columns)
        }

    def describe_ratio(self):
        """Returns percentiles of target tokens per source token; None if there are no pairs."""
        if len(self.columns) != 2:
            return None
        percentiles = np.percentile(self._ratio(), (1, 50, 99)).tolist()
        return dict(zip(("percentile_1", "median", "percentile_99"), percentiles, strict=True))

    def _ratio(self):
        tokens = np.maximum(self.tokens, 1)
        return tokens[:, 1] / tokens[:, 0]

    def oddities(self):
        """Yields an `Oddity` for each kind there is."""
        if len(self.columns) == 2:
            yield Oddity(
                "identical sides",
                "source and target are the same text",
                self.is_identical,
                self.characters[:, 0].astype(float),
            )
            ratio = self._ratio()
            factor = np.exp(np.abs(np.log(ratio / np.median(ratio))))
            is_long = self.tokens.max(axis=1) >= _LEAST_TOKENS
            yield Oddity(
                "length ratio",
                f"target tokens per source token are {_FACTOR} times the usual, or a third of it",
                is_long & (factor >= _FACTOR),
                factor,
            )
        yield from self._oddities_of_texts()

    def _oddities_of_texts(self):
        """Yields what a single text may have; a line is as odd as the odder of its sides."""
        rarity = np.stack([_rarity(column) for column in self.script.T], axis=1)
        rarity = np.where(self.script == _NO_SCRIPT, 0, rarity).max(axis=1)
        yield Oddity(
            "other script",
            f"most letters are of a script that fewer than {_RARE_SCRIPT:.0%} of the lines use",
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
            f"tokens per character are {_FACTOR} times the usual: another language, or noise",
            factor >= _FACTOR,
            factor,
        )
        misdecoded = self.misdecoded.sum(axis=1)
        yield Oddity(
            "wrong decoding",
            "U+FFFD, or characters such as Ã¼ that UTF-8 becomes when it is read as Latin-1",
            misdecoded > 0,
            misdecoded.astype(float),
        )


def _main_script(letters):
    """Returns the script of most letters; None if there are no letters.

    >>> _main_script("Hallo Привет"[6:]), _main_script("")
    ('CYRILLIC', None)
    """
    if not letters:
        return None
    return collections.Counter(map(_script, letters)).most_common(1)[0][0]


@functools.lru_cache(maxsize=1 << 16)
def _script(letter):
    # The standard library has no table of scripts, but names begin with them.
    script = unicodedata.name(letter, "").partition(" ")[0]
    return _WRITTEN_TOGETHER.get(script, script)


def _rarity(scripts):
    """Returns for each line of a column the share of the lines with another main script."""
    return 1 - np.bincount(scripts)[scripts] / len(scripts)


# Looking at characters takes about 20 µs a text: with more examples than this, only every n-th is
# looked at.
SAMPLE = 200_000

LONGEST_LISTED = 5
ODD_LISTED = 3

_SHOWN_CHARACTERS = 200
_USUAL_SHARE = 0.05


def describe_lines(corpus, cache):
    """Returns the longest and the oddest lines with their places, in JSON's types.

    Args:
        corpus: the `Corpus`.
        cache: its `TokenCache`.

    Returns:
        A dictionary: `sample` says how many examples were looked at for all but `longest`;
        `columns` has, for each column of text, `tokens_per_word` and `characters_per_token`;
        `target_tokens_per_source_token` has percentiles for pairs and is else None; `longest` is a
        list of lines; `odd` a list of kinds of oddities, each with its `lines`. The `place` of a
        line is file:number; of parallel files it names the target's, and of a document of several
        lines it is where it ends.
    """
    step = -(-len(cache) // SAMPLE)
    numbers = np.arange(0, len(cache), step)
    features = LineFeatures.of(itertools.islice(corpus, 0, None, step), numbers, cache)
    longest = _longest(cache)
    oddities = [_listed(oddity, numbers) for oddity in features.oddities()]
    wanted = {*longest, *itertools.chain.from_iterable(listed for _, _, listed in oddities)}
    lines = _find_lines(corpus, cache, wanted)
    return {
        "sample": {"examples": len(numbers), "every": step},
        "columns": features.describe_columns(),
        "target_tokens_per_source_token": features.describe_ratio(),
        "longest": [lines[number] for number in longest],
        "odd": [
            {
                "kind": oddity.kind,
                "meaning": oddity.meaning,
                "count": int(oddity.is_odd.sum()),
                "is_usual": is_usual,
                "lines": [lines[number] for number in listed],
            }
            for oddity, is_usual, listed in oddities
        ],
    }


def _longest(cache):
    """Returns the numbers of the examples with the most tokens on one side, the longest first."""
    numbers = widths = np.zeros(0, np.int64)
    first = 0
    for lengths in cache.iterate_lengths():
        widths = np.concatenate([widths, lengths.max(axis=1)])
        numbers = np.concatenate([numbers, np.arange(first, first + len(lengths))])
        best = np.argsort(-widths, kind="stable")[:LONGEST_LISTED]
        widths, numbers = widths[best], numbers[best]
        first += len(lengths)
    return numbers.tolist()


def _listed(oddity, numbers):
    """Returns the oddity, whether it is usual here, and the numbers of its oddest examples."""
    odd = np.flatnonzero(oddity.is_odd)
    if len(odd) > max(ODD_LISTED, _USUAL_SHARE * len(numbers)):
        return oddity, True, []
    oddest = odd[np.argsort(-oddity.degree[odd], kind="stable")][:ODD_LISTED]
    return oddity, False, numbers[oddest].tolist()


def _find_lines(corpus, cache, wanted):
    """Reads the corpus until all wanted examples were met; returns number → place and texts."""
    lines = {}
    tally = Tally()
    for number, example in enumerate(corpus.read(tally)):
        if len(lines) == len(wanted):
            break
        if number in wanted:
            tokens = {
                name: int(column.spans(np.array([number]))[1][0])
                for name, column in cache.sequence_columns.items()
            }
            texts = dict(zip(corpus.columns, map(_shortened, example), strict=True))
            lines[number] = {"place": tally.place, "tokens": tokens, "texts": texts}
    return lines


def _shortened(text):
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
