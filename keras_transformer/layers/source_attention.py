"""Single-head attention without projections, from the states of a decoder to a source."""

from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from keras_transformer.layers.attention.mechanism import AttentionMechanism


class PrecomputedSource(NamedTuple):
    """Keys, values and mask of a source, computed once for all decoding steps.

    Attributes:
        key: The mechanism's `precompute_keys` of keys `[B, 1, S, M]`, a nest of `[B, 1, S, …]`.
        value: `[B, S, M]`.
        mask: Boolean `[B, S]`, False for padding; or None.
    """

    key: Any
    value: tf.Tensor
    mask: tf.Tensor | None

    @classmethod
    def of(cls, mechanism: AttentionMechanism, key: tf.Tensor, value: tf.Tensor, mask: Any) -> Self:
        """Returns the source of keys and values `[B, S, M]` for a mechanism."""
        return cls(mechanism.precompute_keys(key[:, None]), value, mask)

    def repeated(self, rows: int | tf.Tensor) -> Self:
        """Returns the source with a row for each of `rows` hypotheses, which are B·N."""
        hypotheses = rows // tf.maximum(tf.shape(self.value)[0], 1)
        return tf.nest.map_structure(
            lambda each: None if each is None else tf.repeat(each, hypotheses, axis=0), self
        )

    def with_coverage(self, vector: Any, coverage: tf.Tensor) -> Self:
        """Returns the source with `coverage` `[B, S]` times a precomputed vector added to keys."""

        def add(key: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:  # [B, 1, S, …], [1, 1, 1, …]
            return key + tf.cast(coverage, key.dtype)[:, None, :, None] * vector

        return self._replace(key=tf.nest.map_structure(add, self.key, vector))


def decoder_output_spec(
    layer: Any, inputs: Any, source: Any, return_attention_scores: bool = False, **kwargs: Any
) -> Any:
    """Returns the symbolic outputs of a decoder layer and, if requested, attention weights."""
    outputs = keras.KerasTensor(inputs.shape, dtype=layer.compute_dtype)
    shape = (*inputs.shape[:2], source.shape[1])
    weights = keras.KerasTensor(shape, dtype=layer.compute_dtype)
    return (outputs, weights) if return_attention_scores else outputs


def attend_to_source(
    mechanism: AttentionMechanism,
    query: tf.Tensor,
    source: PrecomputedSource,
    position: int | tf.Tensor,
    return_attention_scores: bool = False,
    training: bool | None = None,
) -> tuple[tf.Tensor, Any]:
    """Returns the context of each query, shaped as `query`, and weights `[B, T, S]` or None.

    Args:
        mechanism: An `AttentionMechanism`.
        query: `[B, T, M]`, or `[B·N, T, M]` for N consecutive hypotheses of a row of the source.
        source: The source.
        position: Position of the first query in its sequence.
        return_attention_scores: Whether to return the attention weights. Default False.
        training: Whether dropout is applied.
    """
    batch_size, keys, hidden_dim = tf.unstack(tf.shape(source.value))
    # The number of queries follows from the shapes and not from -1, because a batch may be empty.
    rows, length, _ = tf.unstack(tf.shape(query))
    queries = rows // tf.maximum(batch_size, 1) * length
    by_source = tf.reshape(query, [batch_size, 1, queries, hidden_dim])  # [B, 1, N·T, M]
    by_source = tf.ensure_shape(by_source, [None, 1, None, query.shape[-1]])
    results = mechanism(
        by_source,
        source.key,
        source.value[:, None],
        attention_mask=None if source.mask is None else source.mask[:, None, None, :],
        query_offset=position,
        return_attention_scores=return_attention_scores,
        training=training,
    )
    context, weights = results if return_attention_scores else (results, None)
    context = tf.ensure_shape(tf.reshape(context, tf.shape(query)), query.shape)
    if return_attention_scores:
        weights = tf.reshape(weights, [rows, length, keys])
    return context, weights
