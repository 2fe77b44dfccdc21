"""The largest of many numbers."""

import numpy as np
import tensorflow as tf

#: Numbers of a block: about the root of a vocabulary's size, so that both passes are short.
BLOCK = 64


def likeliest(scores, count, hidden):
    """The `count` largest of each row of `scores` `[R, V]`, as values and places `[R, count]`.

    As `tf.math.top_k`, which on equal numbers takes the first as well, but compares every number
    with the largest so far. Here one pass at the speed of memory takes the maxima of blocks: the
    largest numbers must be in the `count` blocks of the largest maxima.

    Args:
        scores: float32 `[R, V]`.
        count: at most V.
        hidden: boolean `[R, H]`, which of the first H numbers not to look at: they count as -inf.
            So few that it would be a waste to write all others again beside them.

    >>> scores = tf.constant([[9.0, 1.0, 4.0, 1.0]])
    >>> values, places = likeliest(scores, count=2, hidden=tf.constant([[True]]))
    >>> places.numpy()
    array([[2, 1]], dtype=int32)
    """
    size = scores.shape[1]
    if size is None or size <= BLOCK * count:
        return _largest(hide_first(scores, hidden), count)
    number = -(-size // BLOCK)
    if size % BLOCK:
        padding = [[0, 0], [0, number * BLOCK - size]]
        scores = tf.pad(scores, padding, constant_values=-np.inf)
    blocks = tf.reshape(scores, [-1, number, BLOCK])
    first = hide_first(blocks[:, 0], hidden)  # [R, BLOCK]
    maxima = tf.reduce_max(blocks, axis=2)  # [R, V / BLOCK]
    maxima = tf.concat([tf.reduce_max(first, axis=1, keepdims=True), maxima[:, 1:]], axis=1)
    _, best = _largest(maxima, count)  # [R, count]
    if count > 1:
        best = tf.sort(best)  # so that of equal numbers the first comes first
    kept = tf.gather(blocks, best, batch_dims=1)  # [R, count, BLOCK]
    kept = tf.where((best == 0)[..., None], first[:, None], kept)
    values, places = _largest(tf.reshape(kept, [-1, count * BLOCK]), count)
    chosen = best if count == 1 else tf.gather(best, places // BLOCK, batch_dims=1)
    return values, chosen * BLOCK + places % BLOCK


def hide_first(scores, hidden):
    """Scores `[R, V]`, of which the first H are -inf where `hidden` `[R, H]` says so."""
    number = hidden.shape[1]
    first = tf.where(hidden, -np.inf, scores[:, :number])
    return tf.concat([first, scores[:, number:]], axis=1)


def _largest(scores, count):
    if count > 1:
        return tf.math.top_k(scores, count)
    place = tf.argmax(scores, axis=1, output_type=tf.int32)[:, None]
    return tf.gather(scores, place, batch_dims=1), place
