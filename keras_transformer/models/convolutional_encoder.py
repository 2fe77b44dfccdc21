"""Tokens to a memory, by convolutions."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.checks import require_rank
from keras_transformer.layers.convolutional_encoder_block import ConvolutionalEncoderBlock
from keras_transformer.layers.convolutional_memory import ConvolutionalMemory
from keras_transformer.models.token_reader import TokenReader


class ValuedMemory(NamedTuple):
    """A `Memory` whose values are not its states.

    Attributes:
        states: `[B, S, M]`, the keys.
        mask: boolean `[B, S]`, False for padding.
        values: `[B, S, M]`.
        ids: int32 `[B, S]`, the tokens themselves, for a decoder that copies them.
    """

    states: tf.Tensor
    mask: tf.Tensor
    values: tf.Tensor
    ids: tf.Tensor


class ConvolutionalEncoder(TokenReader):
    """Blocks on top of each other: n of them see windows of n·(kernel_width - 1) + 1 tokens.

    Args: see `TokenReader`; the config is a `ConvolutionalSeq2SeqConfig`.
    """

    def __init__(self, config, embedding, name="encoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.blocks = [
            ConvolutionalEncoderBlock(
                config.kernel_width, config.dropout, name=f"{name}_{i}", dtype=dtype
            )
            for i in range(config.encoder_layers)
        ]
        self.memory = ConvolutionalMemory(config.decoder_layers, name=f"{name}_memory", dtype=dtype)

    def __call__(self, ids, training=None):
        """Keys, with an implicit mask, and values, each `[B, S, M]`, of tokens `[B, S]`."""
        states = embedded = self.embed(ids, training)
        for block in self.blocks:
            states = block(states, training=training)
        return self.memory(states, embedded, training=training)

    def encode(self, ids):
        """The `ValuedMemory` of tokens `[B, S]`."""
        ids = require_rank("source", tf.convert_to_tensor(ids), {2: "B, S"})
        keys, values = self(ids, training=False)
        return ValuedMemory(keys, self.embedding.compute_mask(ids), values, ids)
