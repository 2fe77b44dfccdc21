"""Attention to blocks nearby, to a few for all, and to a few at random."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_integer, require_positive_integer
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    is_query_mask,
    register_mechanism,
    softmax_of_visible,
)

# Rows of random numbers; those of later blocks start again with the first.
_TABLE_ROWS = 4096


@register_mechanism("big_bird")
@keras.saving.register_keras_serializable(package="keras_transformer")
class BigBirdAttention(AttentionMechanism):
    """Each block of queries sees blocks of keys: its neighbors, the first ones, and random ones.

    Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences": the internal construction
    (ITC), where the first `num_global` blocks see all keys and are seen by all queries. The blocks
    that a block sees are gathered, so that time and memory grow with T·(blocks seen), not with T·S.
    No key is counted twice: a block that is a neighbor and global, too, is seen once.

    Random blocks are those of a fixed pattern, the same in training and in serving. From each of
    `num_random` equal stretches of the blocks that are neither global nor nearby, one is taken.
    Blocks after a row's last visible key are not among them: a row sees the same whatever the
    padding behind it.

    Only keys can be hidden, from all queries alike; there is no causal use.

    Args:
        block_size: positions in a block. The paper's 64, as are the other numbers (its table 8).
        num_global: the first so many blocks are global.
        num_window: neighbors, the block itself included: an odd number.
        num_random: random blocks for each block of queries.
        seed: of the random pattern.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = BigBirdAttention(block_size=16)(states, states, states)
    >>> keras.Model(states, context).count_params()
    0
    """

    supports_causal = False
    supports_cache = False
    supports_cross = False
    supports_query_masks = False

    def __init__(self, block_size=64, num_global=2, num_window=3, num_random=3, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.block_size = require_positive_integer("block_size", block_size)
        self.num_global = require_integer("num_global", num_global, minimum=0)
        self.num_window = require_positive_integer("num_window", num_window)
        if self.num_window % 2 == 0:
            raise ValueError(
                "`num_window` counts the block itself and as many on either side, so it must be "
                f"odd; got {num_window}. Use {num_window - 1} or {num_window + 1}."
            )
        self.num_random = require_integer("num_random", num_random, minimum=0)
        self.seed = require_integer("seed", seed, minimum=0)
        if self.seed >= 2**32:
            raise ValueError(f"`seed` must be below 2**32; got {seed}.")
        # NumPy promises that these numbers stay the same from version to version.
        draws = np.random.RandomState(self.seed).randint(
            2**31 - 1, size=(_TABLE_ROWS, self.num_random)
        )
        self._draws = draws.astype("int32")

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
        batch_size, _, length, _ = ops.shape(query)
        if attention_mask is None:
            attention_mask = ops.ones((batch_size, 1, 1, length), dtype="bool")
        given = (query, key, value, attention_mask, return_attention_scores, training)
        sees_all = self._sees_all(length)
        if isinstance(sees_all, bool):
            return (self._attend_to_all if sees_all else self._attend_to_blocks)(*given)
        return tf.cond(
            sees_all, lambda: self._attend_to_all(*given), lambda: self._attend_to_blocks(*given)
        )

    def _sees_all(self, length):
        """Whether a text is so short that all blocks see each other, whichever are chosen.

        At an end of the text a block has neighbors on one side alone; when no more blocks are left
        than random ones are drawn, each of them is.
        """
        most = self.num_global + self.num_window // 2 + 1 + self.num_random
        return length <= most * self.block_size

    def _attend_to_all(self, query, key, value, attention_mask, return_attention_scores, training):
        """Full attention: the same for texts so short, without gathering every block for each."""
        scores = tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)  # [B, H, T, S]
        weights = ops.cast(softmax_of_visible(scores, attention_mask), self.compute_dtype)
        context = tf.matmul(self.dropout_layer(weights, training=training), value)
        return (context, weights) if return_attention_scores else context

    def _attend_to_blocks(
        self, query, key, value, attention_mask, return_attention_scores, training
    ):
        batch_size, _, length, _ = ops.shape(query)
        queries, keys, values = (self._in_blocks(x) for x in (query, key, value))
        is_seen = ops.swapaxes(attention_mask, 2, 3)  # [B, 1, S, 1]
        is_seen = ops.broadcast_to(is_seen, (batch_size, ops.shape(is_seen)[1], length, 1))
        is_seen = self._in_blocks(is_seen)[..., 0]  # [B, 1, N, b]
        chosen, is_chosen = self._choose_blocks(is_seen)  # [B, N, K]

        queries = queries * query.shape[-1] ** -0.5
        scores = tf.matmul(queries, _gather(keys, chosen), transpose_b=True)  # [B, H, N, b, K·b]
        gathered = tf.gather(is_seen, chosen, axis=2, batch_dims=1)  # [B, 1, N, K, b]
        visible = ops.logical_and(gathered, ops.expand_dims(is_chosen, (1, -1)))
        visible = ops.reshape(visible, (*ops.shape(visible)[:3], 1, ops.shape(scores)[4]))
        weights = ops.cast(softmax_of_visible(scores, visible), self.compute_dtype)
        dropped = self.dropout_layer(weights, training=training)
        context = _join_blocks(tf.matmul(dropped, _gather(values, chosen)))  # [B, H, N·b, D]
        if return_attention_scores:
            weights = _place(weights, chosen, is_chosen)  # [B, H, N·b, N·b]

        if self.num_global:  # their own queries see all keys
            end = self.num_global * self.block_size
            all_queries, all_keys = _join_blocks(queries), _join_blocks(keys)
            all_seen = ops.swapaxes(_join_blocks(ops.expand_dims(is_seen, -1)), 2, 3)
            scores = tf.matmul(all_queries[:, :, :end], all_keys, transpose_b=True)
            first_weights = softmax_of_visible(scores, all_seen)  # [B, H, g·b, N·b]
            first_weights = ops.cast(first_weights, self.compute_dtype)
            dropped = self.dropout_layer(first_weights, training=training)
            first_context = tf.matmul(dropped, _join_blocks(values))
            context = ops.concatenate([first_context, context[:, :, end:]], axis=2)
            if return_attention_scores:
                weights = ops.concatenate([first_weights, weights[:, :, end:]], axis=2)
        context = context[:, :, :length]
        return (context, weights[:, :, :length, :length]) if return_attention_scores else context

    def _in_blocks(self, x):
        """`[B, H, T, D]` as `[B, H, N, b, D]`, with zeros after the end; N ≥ `num_global`."""
        batch_size, heads, length, width = ops.shape(x)
        if isinstance(length, int):
            num_blocks = max(-(-length // self.block_size), self.num_global, 1)
        else:
            num_blocks = ops.maximum(-(-length // self.block_size), max(self.num_global, 1))
        missing = num_blocks * self.block_size - length
        padded = tf.pad(x, [[0, 0], [0, 0], [0, missing], [0, 0]])
        return ops.reshape(padded, (batch_size, heads, num_blocks, self.block_size, width))

    def _choose_blocks(self, is_seen):
        """The blocks of keys that each block of queries sees.

        Args:
            is_seen: boolean `[B, 1, N, b]`.

        Returns:
            numbers of blocks, int32 `[B, N, K]`; and which of them count, boolean `[B, N, K]`.
        """
        batch_size, _, num_blocks, _ = ops.shape(is_seen)
        numbers = ops.arange(num_blocks, dtype="int32")
        holds_any = ops.any(is_seen, axis=(1, 3))  # [B, N]
        ends = ops.max(ops.where(holds_any, numbers + 1, 0), axis=1)  # [B]: the last that counts
        own = ops.expand_dims(numbers, 1)  # [N, 1]

        first = ops.arange(self.num_global, dtype="int32") + 0 * own  # [N, g]
        reach = self.num_window // 2
        near = own + ops.arange(-reach, reach + 1, dtype="int32")  # [N, W]
        is_near = ops.logical_and(near >= self.num_global, near < num_blocks)
        is_first = ops.ones_like(first, dtype="bool")
        shared = ops.concatenate([first, near], axis=1)
        is_shared = ops.concatenate([is_first, is_near], axis=1)
        rows = (batch_size, *ops.shape(shared))
        random, is_random = self._choose_random_blocks(own, ops.reshape(ends, (-1, 1, 1)), reach)
        chosen = ops.concatenate([ops.broadcast_to(shared, rows), random], axis=2)
        is_chosen = ops.concatenate([ops.broadcast_to(is_shared, rows), is_random], axis=2)
        return ops.clip(chosen, 0, num_blocks - 1), is_chosen

    def _choose_random_blocks(self, own, ends, reach):
        """Random blocks for the blocks `own` `[N, 1]` among those before `ends` `[B, 1, 1]`."""
        # Those left over when the global ones and the neighbors `low` to `high` are taken out.
        low = ops.maximum(own - reach, self.num_global)  # [N, 1]
        high = ops.minimum(own + reach, ends - 1)  # [B, N, 1]
        num_near = ops.maximum(high - low + 1, 0)
        left = ops.maximum(ends - self.num_global - num_near, 0)  # [B, N, 1]

        bounds = ops.arange(self.num_random + 1, dtype="int32") * left // max(self.num_random, 1)
        sizes = bounds[..., 1:] - bounds[..., :-1]  # of the stretches, [B, N, r]
        draws = ops.take(self._draws, own[:, 0] % _TABLE_ROWS, axis=0)  # [N, r]
        ranks = bounds[..., :-1] + draws % ops.maximum(sizes, 1)
        numbers = ranks + self.num_global
        numbers = numbers + ops.where(numbers >= low, num_near, 0)
        return numbers, sizes > 0

    def get_config(self):
        return {
            **super().get_config(),
            "block_size": self.block_size,
            "num_global": self.num_global,
            "num_window": self.num_window,
            "num_random": self.num_random,
            "seed": self.seed,
        }


def _gather(blocks, chosen):
    """Keys or values `[B, H, N, b, D]` of the chosen blocks `[B, N, K]`: `[B, H, N, K·b, D]`."""
    batch_size, heads, num_blocks, block_size, width = ops.shape(blocks)
    gathered = tf.gather(blocks, chosen, axis=2, batch_dims=1)  # [B, H, N, K, b, D]
    size = chosen.shape[-1] * block_size
    return ops.reshape(gathered, (batch_size, heads, num_blocks, size, width))


def _join_blocks(x):
    """`[B, H, N, b, D]` as `[B, H, N·b, D]`."""
    batch_size, heads, num_blocks, block_size, width = ops.shape(x)
    return ops.reshape(x, (batch_size, heads, num_blocks * block_size, width))


def _place(weights, chosen, is_chosen):
    """Weights `[B, H, N, b, K·b]` of chosen blocks as weights of all keys, `[B, H, N·b, N·b]`."""
    batch_size, heads, num_blocks, block_size, _ = ops.shape(weights)
    num_chosen = chosen.shape[-1]
    weights = ops.reshape(
        weights, (batch_size, heads, num_blocks, block_size, num_chosen, block_size)
    )
    is_there = ops.equal(ops.expand_dims(chosen, -1), ops.arange(num_blocks, dtype="int32"))
    is_there = ops.logical_and(is_there, ops.expand_dims(is_chosen, -1))  # [B, N, K, N]
    placed = tf.einsum("bhnqkc,bnkm->bhnqmc", weights, ops.cast(is_there, weights.dtype))
    size = num_blocks * block_size
    return ops.reshape(placed, (batch_size, heads, size, size))
