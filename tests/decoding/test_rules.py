"""The quick way to the best tokens, beside the plain one."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.constraints import (
    BLOCK,
    NEVER,
    ForbiddenTokens,
    NoRepeatNgram,
    RepetitionPenalty,
    Rules,
    hide_first,
    likeliest,
)

ROWS = 6
CONTROLS = (NoRepeatNgram(1), RepetitionPenalty(1.5), ForbiddenTokens([5, 8]))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("size", [5, 4 * BLOCK, 4 * BLOCK + 7])
def test_likeliest_is_top_k(size, count, jit_compile, random):
    """Also of numbers that are equal, within a block and across blocks."""
    few = random.integers(0, 5, (ROWS, size)).astype("float32")
    many = random.normal(0, 1, (ROWS, size)).astype("float32")
    many[0] = NEVER
    hidden = random.random((ROWS, 4)) < 0.5
    find = tf.function(likeliest, jit_compile=jit_compile)
    for scores in (few, many, np.flip(np.sort(many), axis=1)):
        values, places = find(tf.constant(scores), count, tf.constant(hidden))
        expected = tf.math.top_k(hide_first(tf.constant(scores), hidden), count)
        np.testing.assert_array_equal(values, expected.values)
        is_there = values > NEVER
        np.testing.assert_array_equal(places[is_there], expected.indices[is_there])


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("controls", [(), CONTROLS], ids=["free", "controlled"])
@pytest.mark.parametrize("size", [9, 300])
def test_the_best_are_the_best_of_all(size, controls, count, random):
    """For rows too short to end, at their end, within a prefix, and with nothing that may come."""
    logits = random.normal(0, 3, (ROWS, size)).astype("float32")
    logits[:, :4] += 9  # the special tokens would be chosen if they could be
    logits[4, 4:] = NEVER
    logits[4, 3] = NEVER
    ids = random.integers(4, size, (ROWS, 8)).astype("int32")
    prefix = np.array([[0, 0, 0], [5, 6, 0], [5, 6, 7], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    rules = Rules(
        controls,
        minima=tf.constant([1, 1, 1, 9, 1, 1]),
        maxima=tf.constant([9, 9, 9, 9, 9, 3]),
        prefix=tf.constant(prefix, tf.int32),
        prefix_lengths=tf.constant(np.count_nonzero(prefix, axis=1), tf.int32),
    )
    log_probabilities = tf.nn.log_softmax(logits)
    for length in (0, 2, 3, 5):
        best = rules.best(tf.constant(logits), tf.constant(ids), length, count)
        scores = rules.apply(log_probabilities, tf.constant(ids), length)
        expected = tf.math.top_k(scores, min(count, size))
        np.testing.assert_allclose(best.scores, expected.values, atol=1e-5)
        is_there = best.scores > NEVER
        np.testing.assert_array_equal(best.tokens[is_there], expected.indices[is_there])
        own = tf.gather(log_probabilities, best.tokens, axis=1, batch_dims=1)
        np.testing.assert_allclose(best.log_probabilities, own, atol=1e-5)
