"""Tokens to a memory."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer.checks import require_rank
from keras_transformer.layers import EncoderBlock, StructuralPositions
from keras_transformer.models.stack import Stack


class Memory(NamedTuple):
    """What an encoder made of a batch of sequences.

    Attributes:
        states: `[B, S, M]`.
        mask: boolean `[B, S]`, False for padding.
        ids: int32 `[B, S]`, the tokens themselves, for a decoder that copies them.
    """

    states: tf.Tensor
    mask: tf.Tensor
    ids: tf.Tensor | None = None


class MemoryMaker:
    """What all encoders share: called with ids, they give states; `encode` gives a `Memory`."""

    def encode(self, ids, **reading):
        """The `Memory` of tokens `[B, S]`; `reading` goes to the call."""
        ids = require_rank("source", tf.convert_to_tensor(ids), {2: "B, S"})
        states = self(ids, training=False, **reading)
        return Memory(states, self.embedding.compute_mask(ids), ids)


class Encoder(MemoryMaker, Stack):
    """A stack of encoder blocks.

    Args: see `Stack`, and
        num_layers: number of blocks.
        reads_depths: whether each token comes with its depth in a tree.
    """

    def __init__(
        self, config, embedding, num_layers, name="encoder", dtype=None, reads_depths=False
    ):
        super().__init__(config, embedding, name, dtype)
        self.structure = None
        if reads_depths:
            self.structure = StructuralPositions(name=f"{name}_structure", dtype=dtype)
        self.blocks = [
            EncoderBlock(**config.block_settings(), name=f"{name}_{i}", dtype=dtype)
            for i in range(num_layers)
        ]

    def __call__(self, ids, training=None, return_weights=False, depths=None):
        """States `[B, S, M]` of tokens `[B, S]`, with an implicit mask.

        With `return_weights`, also a list of each block's attention weights `[B, H, S, S]`. Where
        the encoder reads them, `depths` are those of the tokens in their tree, `[B, S]`.
        """
        self._check_depths(depths)
        states, weights = self.embed(ids, training, depths=depths), []
        for block in self.blocks:
            states = block(states, return_weights=return_weights, training=training)
            if return_weights:
                states, block_weights = states
                weights.append(block_weights)
        states = self.finish(states)
        return (states, weights) if return_weights else states

    def place(self, embedded, depths=None, **where):
        placed = super().place(embedded, **where)
        return placed if depths is None else self.structure(placed, positions=depths)

    def _check_depths(self, depths):
        if self.structure is not None and depths is None:
            raise ValueError(
                "This model reads the depth of each source token in its tree, and got none. Give "
                "`source_depths`, [B, S] like the source; see `TreeBatches`."
            )
        if self.structure is None and depths is not None:
            raise ValueError(
                "This model does not read `source_depths`, and got some. Leave them out, or make "
                "it with reads_source_depths=True."
            )
