"""Tokens to a memory."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.checks import require_rank
from keras_transformer.layers import EncoderBlock
from keras_transformer.models.stack import Stack


class Memory(NamedTuple):
    """What an encoder made of a batch of sequences.

    Attributes:
        states: `[B, S, M]`.
        mask: boolean `[B, S]`, False for padding.
    """

    states: tf.Tensor
    mask: tf.Tensor


class Encoder(Stack):
    """A stack of encoder blocks. Arguments: see `Stack`, and `num_layers`, the number of blocks."""

    def __init__(self, config, embedding, num_layers, name="encoder", dtype=None):
        super().__init__(config, embedding, name, dtype)
        self.blocks = [
            EncoderBlock(**config.block_settings(), name=f"{name}_{i}", dtype=dtype)
            for i in range(num_layers)
        ]

    def __call__(self, ids, training=None, return_weights=False):
        """States `[B, S, M]` of tokens `[B, S]`, with an implicit mask.

        With `return_weights`, also a list of each block's attention weights `[B, H, S, S]`.
        """
        states, weights = self.embed(ids, training), []
        for block in self.blocks:
            states = block(states, return_weights=return_weights, training=training)
            if return_weights:
                states, block_weights = states
                weights.append(block_weights)
        states = self.finish(states)
        return (states, weights) if return_weights else states

    def encode(self, ids):
        """The `Memory` of tokens `[B, S]`."""
        ids = require_rank("source", tf.convert_to_tensor(ids), {2: "B, S"})
        return Memory(self(ids, training=False), self.embedding.compute_mask(ids))
