"""Memory-compressed attention: a strided convolution reduces the number of keys and values."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    AttentionMechanism,
    Integer,
    register_mechanism,
    split_blocks,
)


@register_mechanism("memory_compressed")
@keras.saving.register_keras_serializable(package="keras_transformer")
class MemoryCompressedAttention(AttentionMechanism):
    """Attention to keys and values that a learned convolution compresses, one for each block.

    Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.4. The number
    of scores is divided by `factor`, but still grows with T·S. Masked keys count as zeros, and a
    block of only masked keys is masked. The heads share the two kernels, which have no biases.

    With a causal mask, a query sees only the blocks that are complete at its position: up to
    `factor - 1` of the latest positions are hidden, and the first `factor - 1` queries see nothing.
    (The paper alternates this mechanism with layers of local attention.) With a KV cache, all keys
    are compressed again at each step. Returned weights distribute the weight of a block evenly over
    its visible keys.

    Args:
        factor: Integer. Size and stride of the convolution. Default 3, as in the paper.
        kernel_initializer: Initializer of the `[factor, D, D]` kernels. Default "glorot_uniform".
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = MemoryCompressedAttention()(states, states, states, use_causal_mask=True)
    >>> keras.Model(states, context).count_params()
    1536
    """

    supports_query_masks = False
    last_query_sees_all_keys = False

    def __init__(
        self,
        factor: int = 3,
        kernel_initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.factor: int = require_positive_integer("factor", factor)
        self.kernel_initializer: Any = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shapes = [(self.factor, shape[-1], shape[-1]) for shape in (key_shape, value_shape)]
        # Cloned: an initializer with a seed would give the same values to both.
        clone = self.kernel_initializer.clone
        self.key_kernel: keras.Variable = self.new_weight("key_kernel", shapes[0], clone())
        self.value_kernel: keras.Variable = self.new_weight("value_kernel", shapes[1], clone())

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        query, key, value, attention_mask = inputs[:4]
        length = ops.shape(key)[2]
        is_visible = ops.ones((1, 1, 1, length), dtype="bool")
        if attention_mask is not None:
            is_visible = ops.logical_and(is_visible, attention_mask)
        is_visible = self._split_blocks(ops.swapaxes(is_visible, 2, 3))[..., 0]  # [B, 1, N, factor]
        keys = self._compress(key, is_visible, self.key_kernel)
        scores = tf.matmul(query * query.shape[-1] ** -0.5, keys, transpose_b=True)  # [B, H, T, N]
        mask = ops.expand_dims(ops.any(is_visible, axis=-1), 2)  # [B, 1, 1, N]
        if inputs.use_causal_mask:
            ends = ops.arange(1, ops.shape(scores)[3] + 1, dtype="int32") * self.factor - 1
            positions = inputs.query_offset + ops.arange(ops.shape(query)[2], dtype="int32")
            is_complete = ops.expand_dims(ends, 0) <= ops.expand_dims(positions, 1)  # [T, N]
            mask = ops.logical_and(mask, is_complete)
        values = self._compress(value, is_visible, self.value_kernel)
        context, weights = self.attend(scores, mask, values, inputs.training)
        if not inputs.return_attention_scores:
            return context, None
        return context, self._weights_of_keys(weights, is_visible, length)

    def _split_blocks(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[B, H, S, D]` as `[B, H, N, factor, D]`, padded with zeros at the end."""
        return split_blocks(x, -(-ops.shape(x)[2] // self.factor), self.factor)

    def _compress(self, x: tf.Tensor, is_visible: tf.Tensor, kernel: Any) -> tf.Tensor:
        """Returns one key or value for each block: `[B, H, S, D]` to `[B, H, N, D]`."""
        blocks = self._split_blocks(x)  # [B, H, N, factor, D]
        blocks = ops.where(ops.expand_dims(is_visible, -1), blocks, ops.zeros_like(blocks))
        kernel = ops.cast(kernel, self.compute_dtype)
        return tf.einsum("bhnfd,fde->bhne", blocks, kernel)

    def _weights_of_keys(
        self, weights: tf.Tensor, is_visible: tf.Tensor, length: Integer
    ) -> tf.Tensor:
        """Returns weights of blocks `[B, H, T, N]` as weights of keys `[B, H, T, S]`."""
        is_visible = ops.cast(is_visible, weights.dtype)
        shares = is_visible / ops.maximum(ops.sum(is_visible, axis=-1, keepdims=True), 1)
        by_key = ops.expand_dims(weights, -1) * ops.expand_dims(shares, 2)  # [B, H, T, N, factor]
        batch_size, num_heads, queries, num_blocks = ops.shape(weights)
        shape = (batch_size, num_heads, queries, num_blocks * self.factor)
        return ops.reshape(by_key, shape)[..., :length]
