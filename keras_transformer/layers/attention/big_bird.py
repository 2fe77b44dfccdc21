"""BigBird attention: blocks of queries see neighboring, global and random blocks of keys."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_integer, require_positive_integer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    AttentionMechanism,
    Integer,
    join_blocks,
    register_mechanism,
    split_blocks,
)

# Number of rows of random numbers. Block number n uses row n modulo this number.
_NUM_RANDOM_ROWS = 4096


@register_mechanism("big_bird")
@keras.saving.register_keras_serializable(package="keras_transformer")
class BigBirdAttention(AttentionMechanism):
    """Attention from each block of queries to its neighbors, global blocks and random blocks.

    Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences", section 2: the internal
    construction (ITC), in which the first `num_global` blocks see all keys and all queries see
    them. The blocks that a block sees are gathered, so that time and memory grow with their number,
    not with T·S. The defaults are those of the paper's table 8.

    The random blocks follow a fixed pattern, the same in training and in serving: the blocks that
    are neither global nor neighbors are divided into `num_random` equal ranges, and one block is
    taken from each. Blocks after the last visible key of a row are never taken, so that the result
    does not depend on the amount of padding.

    Args:
        block_size: Integer. Number of positions in a block. Default 64.
        num_global: Integer. Number of global blocks, the first ones of a text. Default 2.
        num_window: Odd integer. Number of neighboring blocks, the block itself included. Default 3.
        num_random: Integer. Number of random blocks for each block of queries. Default 3.
        seed: Integer. Seed of the random pattern. Default 0.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = BigBirdAttention(block_size=16)(states, states, states)
    >>> keras.Model(states, context).count_params()
    0
    """

    supports_causal = False
    supports_cache = False
    supports_cross = False
    supports_query_masks = False

    def __init__(
        self,
        block_size: int = 64,
        num_global: int = 2,
        num_window: int = 3,
        num_random: int = 3,
        seed: int = 0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.block_size: int = require_positive_integer("block_size", block_size)
        self.num_global: int = require_integer("num_global", num_global, minimum=0)
        self.num_window: int = require_positive_integer("num_window", num_window)
        if self.num_window % 2 == 0:
            expected = "odd, because it counts the block itself and as many blocks on either side"
            fix = f"Use {num_window - 1} or {num_window + 1}."
            raise ArgumentError("num_window", expected, num_window, fix=fix)
        self.num_random: int = require_integer("num_random", num_random, minimum=0)
        self.seed: int = require_integer("seed", seed, minimum=0)
        if self.seed >= 2**32:
            raise ArgumentError("seed", "below 2**32", seed)
        # NumPy guarantees the same numbers from this generator in every version.
        random, size = np.random.RandomState(self.seed), (_NUM_RANDOM_ROWS, self.num_random)
        self._random_numbers = random.randint(2**31 - 1, size=size).astype("int32")

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        batch_size, _, length, _ = ops.shape(inputs.query)
        if inputs.attention_mask is None:
            everything = ops.ones((batch_size, 1, 1, length), dtype="bool")
            inputs = inputs._replace(attention_mask=everything)
        sees_all = self._sees_all(length)
        if isinstance(sees_all, bool):
            return self._attend_to_all(inputs) if sees_all else self._attend_to_blocks(inputs)
        return tf.cond(
            sees_all, lambda: self._attend_to_all(inputs), lambda: self._attend_to_blocks(inputs)
        )

    def _sees_all(self, length: Integer) -> bool | tf.Tensor:
        """Returns whether a text is so short that every block sees every other block."""
        # A block at an end of the text has neighbors on one side only.
        num_blocks = self.num_global + self.num_window // 2 + 1 + self.num_random
        return length <= num_blocks * self.block_size

    def _attend_to_all(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns full attention, which is equal for short texts and gathers no blocks."""
        query, key, value, mask = inputs[:4]
        scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)  # [B, H, T, S]
        context, weights = self.attend(scores, mask, value, inputs.training)
        return context, weights if inputs.return_attention_scores else None

    def _attend_to_blocks(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        query, key, value, key_mask = inputs[:4]
        return_attention_scores, training = inputs.return_attention_scores, inputs.training
        batch_size, _, length, _ = ops.shape(query)
        queries, keys, values = (self._split_blocks(x) for x in (query, key, value))
        is_visible = ops.swapaxes(key_mask, 2, 3)  # [B, 1, S, 1]
        is_visible = ops.broadcast_to(is_visible, (batch_size, ops.shape(is_visible)[1], length, 1))
        is_visible = self._split_blocks(is_visible)[..., 0]  # [B, 1, N, b]
        chosen, is_chosen = self._choose_blocks(is_visible)  # [B, N, K]

        queries = queries * query.shape[-1] ** -0.5
        scores = tf.matmul(queries, _gather(keys, chosen), transpose_b=True)  # [B, H, N, b, K·b]
        gathered = tf.gather(is_visible, chosen, axis=2, batch_dims=1)  # [B, 1, N, K, b]
        mask = ops.logical_and(gathered, ops.expand_dims(is_chosen, (1, -1)))
        mask = ops.reshape(mask, (*ops.shape(mask)[:3], 1, ops.shape(scores)[4]))
        context, weights = self.attend(scores, mask, _gather(values, chosen), training)
        context = join_blocks(context)  # [B, H, N·b, D]
        if return_attention_scores:
            weights = _weights_of_keys(weights, chosen, is_chosen)  # [B, H, N·b, N·b]

        if self.num_global:  # the queries of global blocks see all keys
            end = self.num_global * self.block_size
            queries, keys, values = (join_blocks(x) for x in (queries, keys, values))
            visible = ops.swapaxes(join_blocks(ops.expand_dims(is_visible, -1)), 2, 3)
            scores = tf.matmul(queries[:, :, :end], keys, transpose_b=True)  # [B, H, g·b, N·b]
            global_context, global_weights = self.attend(scores, visible, values, training)
            context = ops.concatenate([global_context, context[:, :, end:]], axis=2)
            if return_attention_scores:
                weights = ops.concatenate([global_weights, weights[:, :, end:]], axis=2)
        context = context[:, :, :length]
        return context, weights[:, :, :length, :length] if return_attention_scores else None

    def _split_blocks(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[B, H, T, D]` as `[B, H, N, b, D]`, zero-padded; N is at least `num_global`."""
        length = ops.shape(x)[2]
        at_least = max if isinstance(length, int) else ops.maximum
        num_blocks = at_least(-(-length // self.block_size), max(self.num_global, 1))
        return split_blocks(x, num_blocks, self.block_size)

    def _choose_blocks(self, is_visible: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the blocks that each block sees, `[B, N, K]`, and whether each of them counts."""
        batch_size, _, num_blocks, _ = ops.shape(is_visible)
        indices = ops.arange(num_blocks, dtype="int32")
        has_visible_keys = ops.any(is_visible, axis=(1, 3))  # [B, N]
        # The number of blocks up to the last one with a visible key.
        ends = ops.max(ops.where(has_visible_keys, indices + 1, 0), axis=1)  # [B]
        own = ops.expand_dims(indices, 1)  # [N, 1]

        first = ops.arange(self.num_global, dtype="int32") + 0 * own  # [N, g]
        reach = self.num_window // 2
        near = own + ops.arange(-reach, reach + 1, dtype="int32")  # [N, W]
        is_near = ops.logical_and(near >= self.num_global, near < num_blocks)
        is_first = ops.ones_like(first, dtype="bool")
        fixed = ops.concatenate([first, near], axis=1)
        is_fixed = ops.concatenate([is_first, is_near], axis=1)
        shape = (batch_size, *ops.shape(fixed))
        random, is_random = self._choose_random_blocks(own, ops.reshape(ends, (-1, 1, 1)), reach)
        chosen = ops.concatenate([ops.broadcast_to(fixed, shape), random], axis=2)
        is_chosen = ops.concatenate([ops.broadcast_to(is_fixed, shape), is_random], axis=2)
        return ops.clip(chosen, 0, num_blocks - 1), is_chosen

    def _choose_random_blocks(
        self, own: tf.Tensor, ends: tf.Tensor, reach: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns random blocks for the blocks `own` `[N, 1]`, all before `ends` `[B, 1, 1]`."""
        # The candidates are all blocks but the global ones and the neighbors `low` to `high`.
        low = ops.maximum(own - reach, self.num_global)  # [N, 1]
        high = ops.minimum(own + reach, ends - 1)  # [B, N, 1]
        num_near = ops.maximum(high - low + 1, 0)
        num_candidates = ops.maximum(ends - self.num_global - num_near, 0)  # [B, N, 1]

        ranges = ops.arange(self.num_random + 1, dtype="int32")
        bounds = ranges * num_candidates // max(self.num_random, 1)
        sizes = bounds[..., 1:] - bounds[..., :-1]  # of the ranges, [B, N, r]
        numbers = ops.take(self._random_numbers, own[:, 0] % _NUM_RANDOM_ROWS, axis=0)  # [N, r]
        ranks = bounds[..., :-1] + numbers % ops.maximum(sizes, 1)
        blocks = ranks + self.num_global
        blocks = blocks + ops.where(blocks >= low, num_near, 0)
        return blocks, sizes > 0


def _gather(blocks: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
    """Returns the chosen blocks `[B, N, K]` of `[B, H, N, b, D]` as `[B, H, N, K·b, D]`."""
    batch_size, num_heads, num_blocks, block_size, size = ops.shape(blocks)
    gathered = tf.gather(blocks, chosen, axis=2, batch_dims=1)  # [B, H, N, K, b, D]
    keys = chosen.shape[-1] * block_size
    return ops.reshape(gathered, (batch_size, num_heads, num_blocks, keys, size))


def _weights_of_keys(weights: tf.Tensor, chosen: tf.Tensor, is_chosen: tf.Tensor) -> tf.Tensor:
    """Returns weights of chosen blocks `[B, H, N, b, K·b]` as weights `[B, H, N·b, N·b]`."""
    batch_size, num_heads, num_blocks, block_size, _ = ops.shape(weights)
    num_chosen = chosen.shape[-1]
    shape = (batch_size, num_heads, num_blocks, block_size, num_chosen, block_size)
    weights = ops.reshape(weights, shape)
    is_block = ops.equal(ops.expand_dims(chosen, -1), ops.arange(num_blocks, dtype="int32"))
    is_block = ops.logical_and(is_block, ops.expand_dims(is_chosen, -1))  # [B, N, K, N]
    by_key = tf.einsum("bhnqkc,bnkm->bhnqmc", weights, ops.cast(is_block, weights.dtype))
    length = num_blocks * block_size
    return ops.reshape(by_key, (batch_size, num_heads, length, length))
