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

    def for_each(self, rows):
        """The source with a row for each of `rows` hypotheses, where they cannot share one."""
        hypotheses = rows // tf.maximum(tf.shape(self.value)[0], 1)
        return tf.nest.map_structure(
            lambda each: None if each is None else tf.repeat(each, hypotheses, axis=0), self
        )

    def marked(self, mark, amounts):
        """The source whose keys are larger by a vector, each as many times as it says.

        Args:
            mark: the vector, prepared as a key is.
            amounts: float32 `[B, S]`.
        """

        def add(key, mark):  # [B, 1, S, …], [1, 1, 1, …]
            return key + tf.cast(amounts, key.dtype)[:, None, :, None] * mark

        return self._replace(key=tf.nest.map_structure(add, self.key, mark))


def attend_to_source(
    mechanism, query, source, position, return_attention_scores=False, training=None
):
    """Lets each query attend to its source, with one head and without projections.

    Args:
        mechanism: an `AttentionMechanism`.
        query: `[B, T, M]`. It may have N rows for each of the source's, one after the other: those
            of N hypotheses that share a source, to which they are N·T queries.
        source: an `AttendedSource`.
        position: of the first query in its sequence.
        return_attention_scores: whether the weights are wanted.
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
        return_attention_scores=return_attention_scores,
        training=training,
    )
    context, weights = attended if return_attention_scores else (attended, None)
    context = tf.ensure_shape(tf.reshape(context, tf.shape(query)), query.shape)
    if return_attention_scores:
        weights = tf.reshape(weights, [rows, length, keys])
    return context, weights
