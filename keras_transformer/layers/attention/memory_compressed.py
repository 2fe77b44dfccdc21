"""Attention to keys and values that a strided convolution has made fewer."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    is_query_mask,
    register_mechanism,
    softmax_of_visible,
)


@register_mechanism("memory_compressed")
@keras.saving.register_keras_serializable(package="keras_transformer")
class MemoryCompressedAttention(AttentionMechanism):
    """Each block of `factor` keys, and of values, becomes one by a learned convolution.

    Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.4. Scores are
    a `factor` fewer; they still grow with T·S. Keys that are hidden count as zeros, and a block of
    nothing else is hidden itself. The two kernels are shared by the heads and have no biases.

    In causal use a query sees the blocks that are complete at its position: not the newest
    `factor - 1` positions at most, and the first `factor - 1` queries see nothing. (The paper puts
    layers of local attention between.) From a cache, all keys are compressed anew at each step.

    The weights returned spread the weight of a block evenly over those of its keys that may be
    seen.

    Args:
        factor: keys in a block: size and stride of the convolution. The paper's 3.
        kernel_initializer: of the two `[factor, D, D]` kernels.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = MemoryCompressedAttention()(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).count_params()
    1536
    """

    supports_query_masks = False
    latest_sees_all = False

    def __init__(self, factor=3, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.factor = require_positive_integer("factor", factor)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, key_shape, value_shape):
        for name, width in (("key", key_shape[-1]), ("value", value_shape[-1])):
            kernel = self.add_weight(
                name=f"{name}_kernel",
                shape=(self.factor, width, width),
                # Cloned: an initializer with a seed would give the same numbers to both.
                initializer=self.kernel_initializer.clone(),
            )
            setattr(self, f"{name}_kernel", kernel)
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
        self.check_use(has_query_mask=is_query_mask(attention_mask))
        length = ops.shape(key)[2]
        is_seen = ops.ones((1, 1, 1, length), dtype="bool")
        if attention_mask is not None:
            is_seen = ops.logical_and(is_seen, attention_mask)
        is_seen = self._in_blocks(ops.swapaxes(is_seen, 2, 3))[..., 0]  # [B, 1, N, factor]
        scores = tf.matmul(
            query * query.shape[-1] ** -0.5,
            self._compress(key, is_seen, self.key_kernel),
            transpose_b=True,
        )  # [B, H, T, N]
        visible = ops.expand_dims(ops.any(is_seen, axis=-1), 2)  # [B, 1, 1, N]
        if use_causal_mask:
            ends = ops.arange(1, ops.shape(scores)[3] + 1, dtype="int32") * self.factor - 1
            positions = query_offset + ops.arange(ops.shape(query)[2], dtype="int32")
            is_complete = ops.expand_dims(ends, 0) <= ops.expand_dims(positions, 1)  # [T, N]
            visible = ops.logical_and(visible, is_complete)
        weights = ops.cast(softmax_of_visible(scores, visible), self.compute_dtype)
        dropped = self.dropout_layer(weights, training=training)
        context = tf.matmul(dropped, self._compress(value, is_seen, self.value_kernel))
        return (
            (context, self._spread(weights, is_seen, length))
            if return_attention_scores
            else context
        )

    def _in_blocks(self, x):
        """`[B, H, S, …]` as `[B, H, N, factor, …]`, with zeros after the end."""
        batch_size, heads, length, width = ops.shape(x)
        missing = -length % self.factor
        padded = tf.pad(x, [[0, 0], [0, 0], [0, missing], [0, 0]])
        num_blocks = (length + missing) // self.factor
        return ops.reshape(padded, (batch_size, heads, num_blocks, self.factor, width))

    def _compress(self, x, is_seen, kernel):
        """Keys or values `[B, H, S, D]` as `[B, H, N, D]`."""
        blocks = self._in_blocks(x)  # [B, H, N, factor, D]
        blocks = ops.where(ops.expand_dims(is_seen, -1), blocks, ops.zeros_like(blocks))
        kernel = ops.cast(kernel, self.compute_dtype)
        return tf.einsum("bhnfd,fde->bhne", blocks, kernel)

    def _spread(self, weights, is_seen, length):
        """Weights of blocks `[B, H, T, N]` as weights of keys `[B, H, T, S]`."""
        is_seen = ops.cast(is_seen, weights.dtype)
        shares = is_seen / ops.maximum(ops.sum(is_seen, axis=-1, keepdims=True), 1)
        spread = ops.expand_dims(weights, -1) * ops.expand_dims(shares, 2)  # [B, H, T, N, factor]
        batch_size, heads, queries, num_blocks, factor = ops.shape(spread)
        spread = ops.reshape(spread, (batch_size, heads, queries, num_blocks * factor))
        return spread[..., :length]

    def get_config(self):
        return {
            **super().get_config(),
            "factor": self.factor,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
