"""What a reading of a whole corpus found."""

import collections
import dataclasses

from keras_transformer.data.corpora.digests import MAX_DISTINCT, DuplicateCounter

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
