"""Grouping of lines into windows that grow and end when the next line is not available."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.inference.translation import in_windows


@given(count=st.integers(0, 200), largest=st.integers(1, 50), is_growing=st.booleans())
def test_windows_hold_all_lines_in_order(count, largest, is_growing):
    windows = list(in_windows(map(str, range(count)), largest, is_growing))
    assert [line for window in windows for line in window] == [str(n) for n in range(count)]
    assert all(1 <= len(window) <= largest for window in windows)
    if not is_growing:
        assert all(len(window) == largest for window in windows[:-1])


def test_windows_double_from_a_short_first_one():
    sizes = [len(window) for window in in_windows(["line"] * 1000, largest=256)]
    assert sizes[0] <= 16
    full = sizes[: sizes.index(256)]
    assert [2 * size for size in full[:-1]] == full[1:]


def test_windows_read_nothing_ahead():
    taken = []
    lines = (taken.append(number) or str(number) for number in range(100))
    windows = in_windows(lines, largest=4)
    assert next(windows) == ["0", "1", "2", "3"]
    assert taken == [0, 1, 2, 3]


def test_windows_of_long_lines_are_short():
    windows = list(in_windows(["x" * 1_000_000] * 40, largest=1000, is_growing=False))
    assert max(map(len, windows)) < 10
    assert sum(map(len, windows)) == 40


def test_windows_measure_items_by_the_given_function():
    pairs = [("x" * 500_000, "y" * 500_000)] * 20
    windows = in_windows(pairs, 1000, is_growing=False, characters=lambda pair: sum(map(len, pair)))
    assert max(map(len, windows)) < 10


class Conversation:
    """Lines; the one after a line that ends with "?" is not available yet."""

    def __init__(self, *lines):
        self._lines = iter(lines)
        self._last = ""

    def __iter__(self):
        return self

    def __next__(self):
        self._last = next(self._lines)
        return self._last

    def must_wait(self):
        return self._last.endswith("?")


def test_windows_end_when_the_next_line_must_be_waited_for():
    lines = ["Wie?", "Ja.", "Was?", "Wo?", "Hier."]
    assert list(in_windows(Conversation(*lines), largest=100)) == [
        ["Wie?"],
        ["Ja.", "Was?"],
        ["Wo?"],
        ["Hier."],
    ]
    (only,) = in_windows(Conversation(*lines), largest=100, is_growing=False)
    assert only == lines


@pytest.mark.parametrize("is_growing", [True, False])
def test_windows_of_no_lines_are_none(is_growing):
    assert list(in_windows([], 10, is_growing)) == []
