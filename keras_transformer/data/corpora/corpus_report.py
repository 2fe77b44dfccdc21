"""Counts over a whole corpus: lengths, duplicates, skipped lines, overlap with another corpus."""

import bisect
import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer._utils.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.data.corpora.corpus import Corpus, Tally

DIGEST_BYTES = 8
# 64 MiB of digests; three times as much while two sorted runs are merged.
MAX_DISTINCT = 1 << 23


def example_digest(example: tuple[str, ...]) -> bytes:
    """Returns 8 bytes that represent an example: equal for equal examples, on every machine.

    Two different examples among ten million share a digest with a probability of about 3e-6.
    """
    # NUL is removed from every text, so it can only stand between two texts.
    text = "\0".join(example).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def digest_array(digests: bytearray) -> np.ndarray:
    """Returns the concatenated digests as a new array of integers."""
    return np.frombuffer(bytes(digests), dtype="<u8")


def find_digests(digests: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns whether each of `others` is in the sorted `digests`, and at which index."""
    indices = np.searchsorted(digests, others)
    is_inside = indices < len(digests)
    is_inside[is_inside] = digests[indices[is_inside]] == others[is_inside]
    return is_inside, indices


class DuplicateCounter:
    """Counter of repeated examples in bounded memory.

    The count is exact up to `max_distinct` different examples. Beyond that no new examples are
    stored, `is_exact` becomes False, and the count is a lower bound.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT, block: int = 1 << 18) -> None:
        self._max_distinct = max_distinct
        self._block_bytes = block * DIGEST_BYTES
        self._pending = bytearray()
        self._seen = np.zeros(0, dtype="<u8")
        self._duplicates = 0
        self.is_exact: bool = True

    def add(self, example: tuple[str, ...]) -> None:
        """Adds one example."""
        self._pending += example_digest(example)
        if len(self._pending) >= self._block_bytes:
            self._merge()

    @property
    def duplicates(self) -> int:
        """Number of examples so far that equal an earlier one."""
        self._merge()
        return self._duplicates

    def _merge(self) -> None:
        block = digest_array(self._pending)
        self._pending.clear()
        distinct = np.unique(block)
        new = distinct[~find_digests(self._seen, distinct)[0]]
        self._duplicates += len(block) - len(new)
        capacity = self._max_distinct - len(self._seen)
        if len(new) > capacity:
            self.is_exact = False
            new = new[:capacity]
        # Stable means timsort here, which merges two sorted runs in linear time.
        self._seen = np.sort(np.concatenate([self._seen, new]), kind="stable")


# Copies of the source on the target side are the noise that harms a translation model most
# (Khayrallah and Koehn 2018, "On the Impact of Various Types of Noise on Neural Machine
# Translation"), but copying is right for names and numbers.
_MANY_IDENTICAL = 0.1
_MANY_DUPLICATES = 0.5


@dataclasses.dataclass(frozen=True)
class LengthSummary:
    """Lengths of the texts of one column, in characters or tokens."""

    minimum: int
    median: int
    mean: float
    percentile_99: int
    maximum: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> "LengthSummary":
        """Returns the summary of a mapping from each length to its number of occurrences."""
        lengths = sorted(counts)
        reached = list(itertools.accumulate(counts[length] for length in lengths))
        number = reached[-1]
        return cls(
            minimum=lengths[0],
            median=lengths[bisect.bisect_left(reached, 0.5 * number)],
            mean=sum(length * count for length, count in counts.items()) / number,
            percentile_99=lengths[bisect.bisect_left(reached, 0.99 * number)],
            maximum=lengths[-1],
        )


@dataclasses.dataclass(frozen=True)
class CorpusReport:
    """Result of reading a whole corpus, returned by `check()` of any corpus.

    Attributes:
        examples: Number of examples that the corpus yields.
        blank_lines: Number of lines, or pairs with a side, without text; skipped.
        bad_lines: Number of lines that break the format; skipped.
        too_long: Number of lines, pairs or documents with a text beyond `max_characters`; skipped.
        replacements: Number of byte sequences that were not UTF-8 and became U+FFFD.
        nul_characters: Number of NUL characters that were removed.
        duplicates: Number of examples that equal an earlier one.
        duplicates_are_exact: False if `duplicates` is a lower bound, in a very large corpus.
        identical_sides: Number of pairs whose two texts are equal; 0 for corpora without pairs.
        lengths: A `LengthSummary` for each column, in characters.
        warnings: Sentences for the user.
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
    lengths: dict[str, LengthSummary]
    warnings: tuple[str, ...]

    def summary(self) -> str:
        """Returns the counts as one line for a log, without those that are zero."""
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
        parts += [f"{name}: {count:,}" for name, count in counts.items() if count]
        if self.duplicates:
            parts.append(f"duplicates: {at_least}{self.duplicates:,}")
        parts += [
            f"characters in {column}: {lengths.mean:.0f} on average, {lengths.maximum:,} at most"
            for column, lengths in self.lengths.items()
        ]
        return "; ".join(parts)


class ReportBuilder:
    """Builder of a `CorpusReport` that takes the examples one by one, in bounded memory."""

    def __init__(self, columns: tuple[str, ...], max_distinct: int = MAX_DISTINCT) -> None:
        self._columns = columns
        self._length_counts = [collections.Counter[int]() for _ in columns]
        self._duplicates = DuplicateCounter(max_distinct)
        self._has_sides = columns == ("source", "target")
        self._identical_sides = 0
        self.examples: int = 0

    def add(self, example: tuple[str, ...]) -> None:
        """Adds one example."""
        self.examples += 1
        for counts, text in zip(self._length_counts, example, strict=True):
            counts[len(text)] += 1
        if self._has_sides and example[0] == example[1]:
            self._identical_sides += 1
        self._duplicates.add(example)

    def report(self, tally: "Tally") -> CorpusReport:
        """Returns the report; `tally` holds the counts of skipped and changed lines."""
        counts = ("blank_lines", "bad_lines", "too_long", "replacements", "nul_characters")
        lengths = map(LengthSummary.of, self._length_counts)
        return CorpusReport(
            examples=self.examples,
            **{name: getattr(tally, name) for name in counts},
            duplicates=self._duplicates.duplicates,
            duplicates_are_exact=self._duplicates.is_exact,
            identical_sides=self._identical_sides,
            lengths=dict(zip(self._columns, lengths, strict=True)),
            warnings=tuple(self._warnings(tally)),
        )

    def _warnings(self, tally: "Tally") -> Iterator[str]:
        yield from tally.warnings
        if self.examples == 1:
            yield "There is only one example."
        if self._duplicates.duplicates >= _MANY_DUPLICATES * self.examples:
            distinct = self.examples - self._duplicates.duplicates
            at_most = "" if self._duplicates.is_exact else "At most "
            noun = ("pair" if self._has_sides else "example") + "s" * (distinct != 1)
            yield f"{at_most}{distinct:,} unique {noun} of {self.examples:,}."
        if self._identical_sides >= _MANY_IDENTICAL * self.examples:
            yield (
                f"{self._identical_sides:,} of {self.examples:,} pairs have the same text on both "
                "sides. Check that the target is a translation."
            )
        if tally.blank_lines and self._has_sides:
            yield f"Pairs with a blank side, skipped: {tally.blank_lines:,}."
        if tally.bad_lines:
            yield f"Bad lines, skipped: {tally.bad_lines:,}. The first: {tally.first_bad_line}"
        if tally.too_long:
            fix = "Split them, or raise `max_characters`."
            yield f"Texts that are too long, skipped: {tally.too_long:,}. {fix}"
        if tally.replacements:
            problem = "Byte sequences that were not UTF-8 and became U+FFFD"
            yield f"{problem}: {tally.replacements:,}. Check that the file is UTF-8."
        if tally.nul_characters:
            yield f"NUL characters removed: {tally.nul_characters:,}. The file may be damaged."


_BLOCK = 1 << 16


def count_overlaps(training: "Corpus", others: Mapping[str, "Corpus"]) -> dict[str, int]:
    """Returns for each evaluation corpus how many of its examples are in the training corpus too.

    The training corpus is read once, however many corpora are compared with it; 8 bytes are stored
    for each of their examples.

    Args:
        training: A corpus.
        others: A mapping from names to corpora with the same columns.

    >>> from keras_transformer.data import MemoryCorpus
    >>> training = MemoryCorpus([("ja", "yes"), ("nein", "no")])
    >>> validation = MemoryCorpus([("nein", "no"), ("nein", "nope")])
    >>> count_overlaps(training, {"validation": validation})
    {'validation': 1}
    """
    for name, corpus in others.items():
        if corpus.columns != training.columns:
            raise UserError(
                f"{name} must have the columns of the training corpus, {training.columns}; got "
                f"{corpus.columns}."
            )
    if not others:
        return {}
    counted = {
        name: np.unique(np.concatenate(list(_digest_blocks(corpus))), return_counts=True)
        for name, corpus in others.items()
    }
    is_found = {name: np.zeros(len(digests), bool) for name, (digests, _) in counted.items()}
    for block in _digest_blocks(training):
        for name, (digests, _) in counted.items():
            is_inside, indices = find_digests(digests, block)
            is_found[name][indices[is_inside]] = True
    return {name: int(counts[is_found[name]].sum()) for name, (_, counts) in counted.items()}


def evaluation_warnings(name: str, report: CorpusReport, overlap: int) -> Iterator[str]:
    """Yields the warnings about an evaluation corpus; `overlap` is that of `count_overlaps`."""
    for warning in report.warnings:
        yield f"{name}: {warning}"
    if overlap:
        yield (
            f"{overlap:,} of {report.examples:,} {name} examples are also in the training corpus. "
            "They measure memorization: remove them from one of the two."
        )


def _digest_blocks(corpus: Iterable[tuple[str, ...]]) -> Iterator[np.ndarray]:
    """Yields the digests of the examples in blocks, the last of which may be empty."""
    pending = bytearray()
    for number, example in enumerate(corpus, start=1):
        pending += example_digest(example)
        if number % _BLOCK == 0:
            yield digest_array(pending)
            pending.clear()
    yield digest_array(pending)
