"""How much of one corpus is in another."""

import collections
import dataclasses
import hashlib

import numpy as np

DIGEST_BYTES = 8
# 64 MiB of digests; three times that for a moment, while two sorted runs are merged.
MAX_DISTINCT = 1 << 23


def example_digest(example):
    """Returns 8 bytes that stand for an example: equal for equal examples, on every machine.

    Two different examples among ten million share one with a probability of about 3e-6.
    """
    # NUL is taken out of every text, so it can only stand between two of them.
    text = "\0".join(example).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def digest_array(digests):
    """Returns the joined digests in `digests`, a bytearray, as a new array of integers."""
    return np.frombuffer(bytes(digests), dtype="<u8")


def contains(sorted_digests, digests):
    """Returns two arrays: whether each of `digests` is in `sorted_digests`, and where if so."""
    places = np.searchsorted(sorted_digests, digests)
    is_inside = places < len(sorted_digests)
    is_inside[is_inside] = sorted_digests[places[is_inside]] == digests[is_inside]
    return is_inside, places


class DuplicateCounter:
    """Counts examples that came before, in bounded memory.

    It is exact up to `max_distinct` different examples. Beyond that no new ones are remembered,
    `is_exact` turns False, and the count is a lower bound.

    Args:
        max_distinct: How many digests of 8 bytes to remember at most.
        block: How many examples to gather before they are looked up together.

    Example:

    >>> counter = DuplicateCounter()
    >>> for word in ["one", "two", "one", "one"]:
    ...     counter.add((word,))
    >>> counter.duplicates, counter.is_exact
    (2, True)
    """

    def __init__(self, max_distinct=MAX_DISTINCT, block=1 << 18):
        self._max_distinct = max_distinct
        self._block_bytes = block * DIGEST_BYTES
        self._pending = bytearray()
        self._seen = np.zeros(0, dtype="<u8")
        self._duplicates = 0
        self.is_exact = True

    def add(self, example):
        self._pending += example_digest(example)
        if len(self._pending) >= self._block_bytes:
            self._merge()

    @property
    def duplicates(self):
        self._merge()
        return self._duplicates

    def _merge(self):
        block = digest_array(self._pending)
        self._pending.clear()
        distinct = np.unique(block)
        is_known, _ = contains(self._seen, distinct)
        new = distinct[~is_known]
        self._duplicates += len(block) - len(new)
        room = self._max_distinct - len(self._seen)
        if len(new) > room:
            self.is_exact = False
            new = new[:room]
        # Stable means timsort here, which merges two sorted runs in linear time.
        self._seen = np.sort(np.concatenate([self._seen, new]), kind="stable")


# Copies of the source on the target side are the noise that harms a translation model most
# (Khayrallah and Koehn 2018, "On the Impact of Various Types of Noise on Neural Machine
# Translation"), but names and numbers are copied rightly.
_MANY_IDENTICAL = 0.1
_MANY_DUPLICATES = 0.5


@dataclasses.dataclass(frozen=True)
class LengthSummary:
    """The lengths, in characters, of one column's texts."""

    minimum: int
    median: int
    mean: float
    percentile_99: int
    maximum: int

    @classmethod
    def of(cls, counts):
        """Builds the summary from a mapping of each length to how often it occurs."""
        number = sum(counts.values())
        return cls(
            minimum=min(counts),
            median=_quantile(counts, number, 0.5),
            mean=sum(length * count for length, count in counts.items()) / number,
            percentile_99=_quantile(counts, number, 0.99),
            maximum=max(counts),
        )


@dataclasses.dataclass(frozen=True)
class CorpusReport:
    """What a reading of a whole corpus found; made by `check()` of any corpus.

    Attributes:
        examples: How many examples the corpus yields.
        blank_lines: Lines, or pairs with a side, without any text; skipped.
        bad_lines: Lines that break the format, skipped as `on_bad_line="skip"` asks.
        too_long: Lines, pairs or documents with a text beyond `max_characters`; skipped.
        replacements: Byte sequences that were not UTF-8 and became U+FFFD.
        nul_characters: NUL characters taken out.
        duplicates: Examples that came before, word for word.
        duplicates_are_exact: False if there were too many different examples to remember; then
            `duplicates` is a lower bound.
        identical_sides: Pairs whose two texts are the same; 0 for corpora without pairs.
        lengths: A `LengthSummary` for each column, by the column's name.
        warnings: What deserves a look, each a sentence or two.
    """

    examples: int
    blank_lines: int
    bad_lines: int
    too_long: int
    replacements: int
    nul_characters: int
    duplicates: int
    duplicates_are_exact: bool
    identical_sides: int
    lengths: dict
    warnings: tuple

    def summary(self):
        """Returns the counts as one line for a log; counts of nothing are left out."""
        at_least = "" if self.duplicates_are_exact else "at least "
        counts = {
            "blank lines skipped": self.blank_lines,
            "bad lines skipped": self.bad_lines,
            "too long, skipped": self.too_long,
            "byte sequences replaced": self.replacements,
            "NUL characters removed": self.nul_characters,
            "pairs with identical sides": self.identical_sides,
        }
        parts = [f"{self.examples:,} examples"]
        parts += [f"{what}: {count:,}" for what, count in counts.items() if count]
        if self.duplicates:
            parts.append(f"duplicates: {at_least}{self.duplicates:,}")
        parts += [
            f"characters in {column}: {lengths.mean:.0f} on average, {lengths.maximum:,} at most"
            for column, lengths in self.lengths.items()
        ]
        return "; ".join(parts)


class ReportBuilder:
    """Gathers a `CorpusReport` from the examples of a corpus, one by one, in bounded memory.

    Args:
        columns: The columns of the corpus.
        max_distinct: Up to how many different examples duplicates are counted exactly.
    """

    def __init__(self, columns, max_distinct=MAX_DISTINCT):
        self._columns = columns
        self._length_counts = [collections.Counter() for _ in columns]
        self._duplicates = DuplicateCounter(max_distinct)
        self._has_sides = columns == ("source", "target")
        self._identical_sides = 0
        self.examples = 0

    def add(self, example):
        self.examples += 1
        for counts, text in zip(self._length_counts, example, strict=True):
            counts[len(text)] += 1
        if self._has_sides and example[0] == example[1]:
            self._identical_sides += 1
        self._duplicates.add(example)

    def report(self, tally):
        """Returns the report; `tally` holds what the reading left out or changed."""
        return CorpusReport(
            examples=self.examples,
            blank_lines=tally.blank_lines,
            bad_lines=tally.bad_lines,
            too_long=tally.too_long,
            replacements=tally.replacements,
            nul_characters=tally.nul_characters,
            duplicates=self._duplicates.duplicates,
            duplicates_are_exact=self._duplicates.is_exact,
            identical_sides=self._identical_sides,
            lengths={
                column: LengthSummary.of(counts)
                for column, counts in zip(self._columns, self._length_counts, strict=True)
            },
            warnings=tuple(self._warnings(tally)),
        )

    def _warnings(self, tally):
        yield from tally.warnings
        if self.examples == 1:
            yield "There is only one example."
        distinct = self.examples - self._duplicates.duplicates
        if self._duplicates.duplicates >= _MANY_DUPLICATES * self.examples:
            at_most = "" if self._duplicates.is_exact else "At most "
            kind = ("pair" if self._has_sides else "example") + "s" * (distinct != 1)
            yield f"{at_most}{distinct:,} unique {kind} of {self.examples:,}."
        if self._identical_sides >= _MANY_IDENTICAL * self.examples:
            yield (
                f"{self._identical_sides:,} of {self.examples:,} pairs have the same text on both "
                "sides. Is the target really the translation?"
            )
        if tally.blank_lines and self._has_sides:
            yield f"Pairs with a blank side, skipped: {tally.blank_lines:,}."
        if tally.bad_lines:
            yield f"Bad lines skipped: {tally.bad_lines:,}; the first: {tally.first_bad_line}."
        if tally.too_long:
            yield f"Too long and skipped: {tally.too_long:,}. Split them, or raise max_characters."
        if tally.replacements:
            yield (
                f"Byte sequences that were not UTF-8 and became U+FFFD: {tally.replacements:,}. "
                "Is the file really UTF-8?"
            )
        if tally.nul_characters:
            yield f"NUL characters removed: {tally.nul_characters:,}. Is the file damaged?"


def _quantile(counts, number, share):
    """Returns the smallest length that at least `share` of the texts do not exceed."""
    reached = 0
    for length in sorted(counts):
        reached += counts[length]
        if reached >= share * number:
            return length
    raise ValueError("A quantile of no lengths at all was asked for.")


_BLOCK = 1 << 16


def count_overlap(training, validation):
    """Returns how many examples of `validation` are, word for word, in `training` too.

    A model is not measured by examples that it was trained on. Both corpora are streamed; 8 bytes
    are held for each example of `validation`.

    Args:
        training: A corpus.
        validation: A corpus with the same columns.

    Example:

    >>> from keras_transformer.data import MemoryCorpus
    >>> training = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> count_overlap(training, MemoryCorpus([("nein", "no"), ("nein", "nope")]))
    1
    """
    if training.columns != validation.columns:
        raise ValueError(
            "`training` and `validation` must have the same columns; "
            f"got {training.columns} and {validation.columns}."
        )
    blocks = [np.zeros(0, dtype="<u8"), *_digest_blocks(validation)]
    digests, counts = np.unique(np.concatenate(blocks), return_counts=True)
    is_found = np.zeros(len(digests), dtype=bool)
    for block in _digest_blocks(training):
        is_inside, places = contains(digests, block)
        is_found[places[is_inside]] = True
    return int(counts[is_found].sum())


def _digest_blocks(corpus):
    pending = bytearray()
    for number, example in enumerate(corpus, start=1):
        pending += example_digest(example)
        if number % _BLOCK == 0:
            yield digest_array(pending)
            pending.clear()
    yield digest_array(pending)
