"""Tokens to a memory, by recurrent layers."""

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.recurrence.bidirectional_recurrence import BidirectionalRecurrence
from keras_transformer.models.encoder import MemoryMaker
from keras_transformer.models.token_reader import TokenReader


class RecurrentEncoder(MemoryMaker, TokenReader):
    """Bidirectional layers on top of each other, with dropout between them.

    Args: see `TokenReader`; the config is a `RecurrentSeq2SeqConfig`.
    """

    def __init__(self, config, embedding, name="encoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.layers = [
            BidirectionalRecurrence(config.width, config.cell, name=f"{name}_{i}", dtype=dtype)
            for i in range(config.encoder_layers)
        ]
        self.drops = [
            Dropout(config.dropout, name=f"{name}_{i}_dropout", dtype=dtype)
            for i in range(config.encoder_layers)
        ]

    def __call__(self, ids, training=None):
        """States `[B, S, M]` of tokens `[B, S]`, with an implicit mask."""
        states = self.embed(ids, training)
        for layer, drop in zip(self.layers, self.drops, strict=True):
            states = drop(layer(states), training=training)
        return states
