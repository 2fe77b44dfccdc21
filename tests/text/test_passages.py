"""Splitting and sampling of the lines that a vocabulary is learned from."""

import collections

from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.text.learning import LONGEST_PASSAGE, sample_passages, split_line


def test_sample_passages_keeps_short_lines(silent):
    lines = ["one", " two  three ", "\ttab", "", "   ", "four\n", "five\r\n"]
    expected = ["one", " two  three ", "\ttab", "four", "five"]
    assert sample_passages(lines, 100, silent) == expected


@given(st.text(alphabet="ab \t", max_size=2000))
def test_split_line_loses_only_spaces(line):
    parts = list(split_line(line))
    assert all(0 < len(part) <= LONGEST_PASSAGE and not part.isspace() for part in parts)
    assert "".join(parts).replace(" ", "").strip() == line.replace(" ", "").strip()


def test_split_line_splits_at_spaces():
    line = " ".join(f"word{number}" for number in range(10_000))
    parts = list(split_line(line))
    assert " ".join(parts) == line
    assert min(map(len, parts[:-1])) > LONGEST_PASSAGE - 12


def test_split_line_without_spaces_splits_at_maximum_length():
    parts = list(split_line("x" * 1_000_000))
    assert len(parts) == 1_000_000 // LONGEST_PASSAGE
    assert set(map(len, parts)) == {LONGEST_PASSAGE}


def test_sample_passages_is_deterministic_and_uniform(silent):
    lines = [str(number) for number in range(2000)]
    sample = sample_passages(iter(lines), 1000, silent)
    assert sample == sample_passages(iter(lines), 1000, silent)
    assert len(set(sample)) == 1000
    # About 250 of each quarter are expected; more than five standard deviations are allowed.
    quarters = collections.Counter(int(line) // 500 for line in sample)
    assert all(190 < quarters[quarter] < 310 for quarter in range(4))
