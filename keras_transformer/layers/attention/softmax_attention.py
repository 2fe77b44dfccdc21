"""Attention that scores every query against every key and mixes the values by softmax."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.mechanism import AttentionMechanism

# Added to the score of a hidden key. Finite, so that a row with nothing to see gives no NaN; large
# enough that exp() of it is exactly 0 beside any visible score.
HIDDEN = -1e9


def distances(query, key, query_offset):
    """Position of each key less that of each query, int32 `[T, S]`; above 0 lies the future.

    Args:
        query: any tensor `[B, H, T, …]`.
        key: any tensor `[B, H, S, …]`.
        query_offset: position of the first query.
    """
    queries = query_offset + ops.arange(ops.shape(query)[2], dtype="int32")
    keys = ops.arange(ops.shape(key)[2], dtype="int32")
    return ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)


def full_precision(scores):
    """Scores in float32 at least: a softmax over many of them is not for half precision."""
    return ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))


def softmax_of_visible(scores, visible):
    """Softmax of scores `[…, S]` over what is visible, in full precision; zeros where nothing is.

    Args:
        scores: of any floating-point type.
        visible: boolean, broadcastable to the scores.
    """
    scores = full_precision(scores)
    scores = scores + ops.where(visible, ops.cast(0, scores.dtype), HIDDEN)
    sees_any = ops.any(visible, axis=-1, keepdims=True)
    return tf.nn.softmax(scores) * ops.cast(sees_any, scores.dtype)


class SoftmaxAttention(AttentionMechanism):
    """Base of the dense mechanisms: scores, softmax over what may be seen, weighted sum of values.

    A subclass implements `score`; one whose positions also mark the values overrides `mix`. What
    else it takes in its `call` it hands to `attend`, and gets it in both.
    """

    def score(self, query, key, query_offset):
        """Scores `[B, H, T, S]` of queries `[B, H, T, D]` against keys `[B, H, S, D]`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")

    def mix(self, weights, value, query_offset):
        """Context `[B, H, T, D]` from weights `[B, H, T, S]` and values `[B, H, S, D]`."""
        return tf.matmul(weights, value)

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_weights=False,
        training=None,
    ):
        return self.attend(
            query,
            key,
            value,
            attention_mask,
            query_offset,
            use_causal_mask,
            return_weights,
            training,
        )

    def weigh(self, scores):
        """The weights `[B, H, T, S]` of scores in which what is hidden has next to nothing."""
        return ops.cast(tf.nn.softmax(scores), self.compute_dtype)

    def attend(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_weights=False,
        training=None,
        **marks,
    ):
        """What `call` returns; `marks` go to `score` and `mix`."""
        scores = full_precision(self.score(query, key, query_offset, **marks))
        mask = attention_mask
        if use_causal_mask:
            is_past = distances(query, key, query_offset) <= 0
            mask = is_past if mask is None else ops.logical_and(mask, is_past)
        if mask is not None:
            scores = scores + ops.where(mask, ops.cast(0, scores.dtype), HIDDEN)
        weights = self.weigh(scores)
        dropped = self.dropout_layer(weights, training=training)
        context = self.mix(dropped, value, query_offset, **marks)  # [B, H, T, D]
        if attention_mask is not None:  # a causal mask alone leaves every query something to see
            sees_any = ops.cast(ops.any(mask, axis=-1, keepdims=True), self.compute_dtype)
            context, weights = context * sees_any, weights * sees_any
        return (context, weights) if return_weights else context
