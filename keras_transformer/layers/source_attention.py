"""A mechanism as it is, from the states of a decoder to a source."""

from typing import Any, NamedTuple

import tensorflow as tf


class AttendedSource(NamedTuple):
    """What there is to attend to.

    Attributes:
        key: what the mechanism prepared of keys `[B, 1, S, M]`: a nest of tensors `[B, 1, S, …]`.
        value: `[B, S, M]`.
        mask: boolean `[B, S]`, False for padding; or None.
    """

    key: Any
    value: tf.Tensor
    mask: tf.Tensor | None

    @classmethod
    def prepared(cls, mechanism, key, value, mask):
        """Of keys and values `[B, S, M]`, what depends on them alone done once for all queries."""
        return cls(mechanism.prepare(key[:, None]), value, mask)


def attend_to_source(mechanism, query, source, position, return_weights=False, training=None):
    """Lets each query attend to its source, with one head and without projections.

    Args:
        mechanism: an `AttentionMechanism`.
        query: `[B, T, M]`. It may have N rows for each of the source's, one after the other: those
            of N hypotheses that share a source, to which they are N·T queries.
        source: an `AttendedSource`.
        position: of the first query in its sequence.
        return_weights: whether the weights are wanted.
        training: see Keras.

    Returns:
        context `[B, T, M]`, and weights `[B, T, S]` or None.
    """
    batch_size, keys, width = tf.unstack(tf.shape(source.value))
    # [B, 1, N·T, M]; the number of queries is told by the sizes, as a batch may be empty.
    rows, length, _ = tf.unstack(tf.shape(query))
    queries = rows // tf.maximum(batch_size, 1) * length
    side_by_side = tf.reshape(query, [batch_size, 1, queries, width])
    side_by_side = tf.ensure_shape(side_by_side, [None, 1, None, query.shape[-1]])
    attended = mechanism(
        side_by_side,
        source.key,
        source.value[:, None],
        attention_mask=None if source.mask is None else source.mask[:, None, None, :],
        query_offset=position,
        return_weights=return_weights,
        training=training,
    )
    context, weights = attended if return_weights else (attended, None)
    context = tf.ensure_shape(tf.reshape(context, tf.shape(query)), query.shape)
    if return_weights:
        weights = tf.reshape(weights, [rows, length, keys])
    return context, weights
