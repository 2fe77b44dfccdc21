"""Tests of the mask and positions of packed documents."""

import keras
import numpy as np

from keras_transformer.layers import PackedSegments

SEGMENTS = np.array([[1, 1, 2, 2, 2, 0], [5, 3, 3, 3, 0, 0]])


def test_mask_and_positions_equal_numpy():
    mask, positions = PackedSegments()(SEGMENTS)
    for b, i, j in np.ndindex(2, 6, 6):
        together = SEGMENTS[b, i] == SEGMENTS[b, j] != 0
        assert mask[b, i, j] == together
    assert positions.numpy().tolist() == [[0, 1, 0, 1, 2, 0], [0, 0, 1, 2, 0, 0]]


def test_symbolic_call_has_shapes_and_dtypes():
    mask, positions = PackedSegments()(keras.Input((None,), dtype="int32"))
    assert (mask.shape, mask.dtype) == ((None, None, None), "bool")
    assert (positions.shape, positions.dtype) == ((None, None), "int32")
