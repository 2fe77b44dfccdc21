import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.batching.packed_batches import pack


@given(st.integers(1, 40).flatmap(lambda w: st.lists(st.integers(0, 30), min_size=w, max_size=w)))
def test_every_piece_has_its_place_and_no_row_is_too_long(counts):
    width = len(counts)
    patterns = pack([0, *counts], width)
    found = np.zeros(width + 1, int)
    for lengths, rows in patterns:
        assert rows > 0
        assert 0 < sum(lengths) <= width
        for length in lengths:
            found[length] += rows
    assert found.tolist() == [0, *counts]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60))
def test_is_as_good_as_best_fit_decreasing(lengths):
    """As good as one piece after the other, the longest first, to where the least room is left."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [index for index, room in enumerate(rooms) if room >= length]
        if fitting:
            rooms[min(fitting, key=rooms.__getitem__)] -= length
        else:
            rooms.append(12 - length)
    patterns = pack(np.bincount(lengths, minlength=13), 12)
    assert sum(rows for _, rows in patterns) == len(rooms)


def test_short_documents_leave_hardly_any_room():
    lengths = np.clip(np.random.default_rng(1).lognormal(4, 0.8, 100_000), 2, 512).astype(int)
    patterns = pack(np.bincount(lengths, minlength=513), 512)
    assert lengths.sum() / (512 * sum(rows for _, rows in patterns)) > 0.99
