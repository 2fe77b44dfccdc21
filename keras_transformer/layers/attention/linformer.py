"""Attention to a fixed number of mixtures of the keys."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    full_precision,
    is_query_mask,
    register_mechanism,
)


@register_mechanism("linformer")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LinformerAttention(AttentionMechanism):
    """`softmax(q·(Eᵀk) / sqrt(D)) (Fᵀv)`: keys and values are projected along their length.

    Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity". Each of `rank` mixtures is
    a learned sum over all positions, so that time and memory grow with T·rank, not with T·S. For
    the same reason no mixture can be kept from a query without the others: there is no causal use.
    E and F are two matrices for each layer, which the heads share (the paper's "headwise sharing").
    Keys that are hidden count as zeros.

    The weights returned are those of the mixtures times F, so that weights times values are the
    context. They may be negative and need not sum to 1.

    Args:
        max_length: the most keys that there can be; more are an error. By default, as many as a
            `ModelConfig` has positions.
        rank: number of mixtures. The paper's k: 128 does for 512 tokens (its section 5.1).
        projection_initializer: of the two `[max_length, rank]` matrices.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = LinformerAttention(max_length=512, rank=64)(states, states, states)
    >>> keras.Model(states, context).count_params()
    65536
    """

    supports_causal = False
    supports_cache = False
    supports_query_masks = False
    is_bounded = True

    def __init__(
        self, max_length=1024, rank=128, projection_initializer="glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        self.max_length = require_positive_integer("max_length", max_length)
        self.rank = require_positive_integer("rank", rank)
        self.projection_initializer = keras.initializers.get(projection_initializer)

    def build(self, query_shape, key_shape, value_shape):
        for name in ("key", "value"):
            projection = self.add_weight(
                name=f"{name}_projection",
                shape=(self.max_length, self.rank),
                # Cloned: an initializer with a seed would give the same numbers to both.
                initializer=self.projection_initializer.clone(),
            )
            setattr(self, f"{name}_projection", projection)
        self.built = True

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
    ):
        self.check_use(is_causal=use_causal_mask, has_query_mask=is_query_mask(attention_mask))
        length = self._check_length(key)
        by_key, by_value = (
            ops.cast(projection[:length], self.compute_dtype)  # [S, R]
            for projection in (self.key_projection, self.value_projection)
        )
        if attention_mask is not None:
            is_seen = ops.swapaxes(attention_mask, 2, 3)  # [B, 1, S, 1]
            key, value = (ops.where(is_seen, x, ops.zeros_like(x)) for x in (key, value))
        keys = tf.einsum("bhsd,sr->bhrd", key, by_key)
        values = tf.einsum("bhsd,sr->bhrd", value, by_value)
        scores = tf.matmul(query * query.shape[-1] ** -0.5, keys, transpose_b=True)
        weights = tf.nn.softmax(full_precision(scores))  # [B, H, T, R]
        weights = ops.cast(weights, self.compute_dtype)
        context = tf.matmul(self.dropout_layer(weights, training=training), values)
        if not return_attention_scores:
            return context
        weights = tf.einsum("bhtr,sr->bhts", weights, by_value)
        if attention_mask is not None:
            weights = ops.where(attention_mask, weights, ops.zeros_like(weights))
        return context, weights

    def _check_length(self, key):
        """Returns S, a number or a scalar tensor, if the projections reach so far."""
        message = (
            f"The attention mechanism 'linformer' has projections for {self.max_length} keys "
            f"(max_length={self.max_length}) and was given more. Shorten the input, or train with "
            "a larger max_length."
        )
        length = ops.shape(key)[2]
        if isinstance(length, int):
            if length > self.max_length:
                raise ValueError(f"{message} There are {length}.")
            return length
        # In a graph: checked when it runs.
        check = tf.debugging.Assert(length <= self.max_length, [message, length])
        with tf.control_dependencies([check]):
            return tf.identity(length)

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "rank": self.rank,
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
        }
