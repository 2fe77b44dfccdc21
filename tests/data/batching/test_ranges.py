import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.batching.batches import concatenated_ranges


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 9))))
def test_is_all_ranges_one_after_the_other(ranges):
    begins, counts = [b for b, _ in ranges], [c for _, c in ranges]
    wanted = [n for begin, count in ranges for n in range(begin, begin + count)]
    found = concatenated_ranges(begins, counts)
    assert found.tolist() == wanted
    assert found.dtype == np.int64
