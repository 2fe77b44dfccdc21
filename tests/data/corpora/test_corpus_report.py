"""Corpus reports: lengths, duplicates, warnings, overlap with other corpora."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import (
    LineDocuments,
    MemoryCorpus,
    TsvCorpus,
    count_overlaps,
)
from keras_transformer.data.corpora.corpus import Tally
from keras_transformer.data.corpora.corpus_report import (
    CorpusReport,
    DuplicateCounter,
    LengthSummary,
    ReportBuilder,
    evaluation_warnings,
    example_digest,
)


def test_lengths_are_counted_by_column():
    lengths = MemoryCorpus([("a", "aaaa"), ("bb", "b"), ("cccc", "c")]).check().lengths
    assert lengths["source"] == LengthSummary(1, 2, pytest.approx(7 / 3), 4, 4)
    assert lengths["target"] == LengthSummary(1, 1, 2.0, 4, 4)


@given(st.dictionaries(st.integers(1, 50), st.integers(1, 30), min_size=1))
def test_length_summary_equals_that_of_sorted_list(counts):
    lengths = sorted(length for length, count in counts.items() for _ in range(count))
    summary = LengthSummary.of(counts)
    assert (summary.minimum, summary.maximum) == (lengths[0], lengths[-1])
    assert summary.median == statistics.median_low(lengths)
    assert summary.mean == pytest.approx(statistics.fmean(lengths))
    assert sum(length <= summary.percentile_99 for length in lengths) >= 0.99 * len(lengths)
    assert sum(length < summary.percentile_99 for length in lengths) < 0.99 * len(lengths)


def test_corpus_of_one_repeated_pair_warns(tmp_path):
    (tmp_path / "pairs.tsv").write_text("ja\tyes\n" * 1_500)
    report = TsvCorpus(tmp_path / "pairs.tsv").check()
    assert (report.examples, report.duplicates) == (1_500, 1_499)
    assert report.warnings == ("1 unique pair of 1,500.",)


def test_few_duplicates_give_no_warning():
    report = MemoryCorpus([("a", "b"), ("c", "d"), ("a", "b")]).check()
    assert (report.duplicates, report.duplicates_are_exact, report.warnings) == (1, True, ())


def test_single_example_gives_warning():
    report = MemoryCorpus([("ja", "yes")]).check()
    assert report.examples == 1
    assert report.warnings == ("There is only one example.",)


def test_few_identical_sides_give_no_warning():
    pairs = [(f"wort {number}", f"word {number}") for number in range(20)]
    report = MemoryCorpus([*pairs, ("Berlin", "Berlin")]).check()
    assert (report.identical_sides, report.warnings) == (1, ())


def test_text_that_equals_its_label_is_not_counted():
    report = MemoryCorpus([("a", "a"), ("b", "b")], columns=("text", "label")).check()
    assert (report.identical_sides, report.warnings) == (0, ())


def test_summary_has_all_counts():
    report = CorpusReport(
        examples=1_234,
        blank_lines=1,
        bad_lines=2,
        too_long=3,
        replacements=4,
        nul_characters=5,
        duplicates=6,
        duplicates_are_exact=False,
        identical_sides=7,
        lengths={"text": LengthSummary(1, 2, 3.6, 4, 5_000)},
        warnings=(),
    )
    assert report.summary() == (
        "1,234 examples; blank lines skipped: 1; bad lines skipped: 2; too long, skipped: 3; "
        "byte sequences replaced: 4; NUL characters removed: 5; pairs with identical sides: 7; "
        "duplicates: at least 6; characters in text: 4 on average, 5,000 at most"
    )


def test_summary_omits_counts_of_zero():
    summary = MemoryCorpus([("ab",), ("cd",)], columns=("text",)).check().summary()
    assert summary == "2 examples; characters in text: 2 on average, 2 at most"


def test_report_with_inexact_count_says_at_most():
    builder = ReportBuilder(("text",), max_distinct=1)
    for text in "abaaaa":
        builder.add((text,))
    report = builder.report(Tally())
    assert not report.duplicates_are_exact
    assert report.warnings == ("At most 2 unique examples of 6.",)


# Duplicates.


def count(examples, **settings):
    counter = DuplicateCounter(**settings)
    for example in examples:
        counter.add(example)
    return counter


@given(examples=st.lists(st.tuples(st.text("ab", max_size=3))), block=st.integers(1, 7))
def test_duplicate_count_within_limit_is_exact(examples, block):
    counter = count(examples, block=block)
    assert counter.duplicates == len(examples) - len(set(examples))
    assert counter.is_exact


@given(
    examples=st.lists(st.tuples(st.text("abc", max_size=3))),
    block=st.integers(1, 7),
    limit=st.integers(0, 5),
)
def test_duplicate_count_beyond_limit_is_lower_bound(examples, block, limit):
    counter = count(examples, block=block, max_distinct=limit)
    distinct = len(set(examples))
    assert counter.duplicates <= len(examples) - distinct
    assert counter.is_exact == (distinct <= limit)
    assert not counter.is_exact or counter.duplicates == len(examples) - distinct


def test_reading_duplicate_count_changes_nothing():
    counter = count([("a",), ("a",)])
    assert counter.duplicates == 1
    counter.add(("a",))
    assert counter.duplicates == counter.duplicates == 2


def test_digest_distinguishes_columns():
    assert example_digest(("ab", "c")) != example_digest(("a", "bc"))


# Overlap.


def count_overlap(training, validation):
    return count_overlaps(training, {"validation": validation})["validation"]


def test_overlap_of_files_counts_repeated_examples(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tA\nb\tB\nc\tC\nb\tB\n")
    (tmp_path / "valid.tsv").write_text("b\tB\nc\tother\nd\tD\nb\tB\n")
    training, validation = TsvCorpus(tmp_path / "train.tsv"), TsvCorpus(tmp_path / "valid.tsv")
    assert count_overlap(training, validation) == 2
    assert count_overlap(validation, training) == 2
    assert count_overlap(training, training) == 4


def test_overlap_of_more_than_a_block():
    numbers = [(str(number), "n") for number in range(70_000)]
    training = MemoryCorpus(numbers[:69_000])
    assert count_overlap(training, MemoryCorpus(numbers[68_999:])) == 1
    assert count_overlap(MemoryCorpus(numbers[68_999:]), training) == 1


def test_overlap_distinguishes_columns():
    assert count_overlap(MemoryCorpus([("ab", "c")]), MemoryCorpus([("a", "bc")])) == 0


def test_overlap_with_empty_corpus_is_zero(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "one").write_text("one\n")
    empty, one = LineDocuments(tmp_path / "empty"), LineDocuments(tmp_path / "one")
    assert count_overlap(empty, one) == count_overlap(one, empty) == 0


def test_overlap_of_other_columns_is_refused():
    with pytest.raises(ValueError, match=r"columns .*\('source', 'target'\); got \('text',\)"):
        count_overlap(MemoryCorpus([("a", "b")]), MemoryCorpus([("a",)], columns=("text",)))


class CountingCorpus(MemoryCorpus):
    """A corpus that counts how often it is read."""

    readings = 0

    def read(self, tally):
        self.readings += 1
        return super().read(tally)


def test_overlaps_of_several_corpora_read_training_once():
    training = CountingCorpus([("a", "A"), ("b", "B"), ("c", "C")])
    others = {
        "validation": MemoryCorpus([("a", "A"), ("x", "X")]),
        "test": MemoryCorpus([("b", "B"), ("c", "C"), ("b", "B")]),
        "new": MemoryCorpus([("y", "Y")]),
    }
    assert count_overlaps(training, others) == {"validation": 1, "test": 3, "new": 0}
    assert training.readings == 1
    assert count_overlaps(training, {}) == {}
    assert training.readings == 1


def test_evaluation_warnings_name_the_corpus():
    report = MemoryCorpus([("a", "A")]).check()
    single, overlap = evaluation_warnings("test.news", report, overlap=1)
    assert single == "test.news: There is only one example."
    assert overlap.startswith("1 of 1 test.news examples")
    assert len(list(evaluation_warnings("test.news", report, overlap=0))) == 1
