"""What the report says about a corpus."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import MemoryCorpus, TsvCorpus
from keras_transformer.data.corpora.corpus_report import CorpusReport, LengthSummary, ReportBuilder
from keras_transformer.data.corpora.text_file import Tally


def test_lengths():
    lengths = MemoryCorpus([("a", "aaaa"), ("bb", "b"), ("cccc", "c")]).check().lengths
    assert lengths["source"] == LengthSummary(1, 2, pytest.approx(7 / 3), 4, 4)
    assert lengths["target"] == LengthSummary(1, 1, 2.0, 4, 4)


@given(st.dictionaries(st.integers(1, 50), st.integers(1, 30), min_size=1))
def test_length_summary_agrees_with_a_sorted_list(counts):
    lengths = sorted(length for length, count in counts.items() for _ in range(count))
    summary = LengthSummary.of(counts)
    assert (summary.minimum, summary.maximum) == (lengths[0], lengths[-1])
    assert summary.median == statistics.median_low(lengths)
    assert summary.mean == pytest.approx(statistics.fmean(lengths))
    assert sum(length <= summary.percentile_99 for length in lengths) >= 0.99 * len(lengths)
    assert sum(length < summary.percentile_99 for length in lengths) < 0.99 * len(lengths)


def test_all_lines_are_the_same(tmp_path):
    (tmp_path / "pairs.tsv").write_text("ja\tyes\n" * 1_500)
    report = TsvCorpus(tmp_path / "pairs.tsv").check()
    assert (report.examples, report.duplicates) == (1_500, 1_499)
    assert report.warnings == ("1 unique pair of 1,500.",)


def test_few_duplicates_are_no_matter_for_a_warning():
    report = MemoryCorpus([("a", "b"), ("c", "d"), ("a", "b")]).check()
    assert (report.duplicates, report.duplicates_are_exact, report.warnings) == (1, True, ())


def test_exactly_one_example():
    report = MemoryCorpus([("ja", "yes")]).check()
    assert report.examples == 1
    assert report.warnings == ("There is only one example.",)


def test_some_identical_sides_are_normal():
    pairs = [(f"wort {number}", f"word {number}") for number in range(20)]
    report = MemoryCorpus([*pairs, ("Berlin", "Berlin")]).check()
    assert (report.identical_sides, report.warnings) == (1, ())


def test_identical_text_and_label_is_no_matter():
    report = MemoryCorpus([("a", "a"), ("b", "b")], columns=("text", "label")).check()
    assert (report.identical_sides, report.warnings) == (0, ())


def test_summary_names_what_was_counted():
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


def test_summary_leaves_out_what_did_not_occur():
    summary = MemoryCorpus([("ab",), ("cd",)], columns=("text",)).check().summary()
    assert summary == "2 examples; characters in text: 2 on average, 2 at most"


def test_an_inexact_count_says_so():
    builder = ReportBuilder(("text",), max_distinct=1)
    for text in "abaaaa":
        builder.add((text,))
    report = builder.report(Tally())
    assert not report.duplicates_are_exact
    assert report.warnings == ("At most 2 unique examples of 6.",)
