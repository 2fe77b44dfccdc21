"""Tokens to a memory."""

from typing import NamedTuple

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_rank
from keras_transformer.layers import EncoderBlock, TreeDepthEncoding, TreePositions
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.normalization import make_normalization
from keras_transformer.layers.positions import SCHEMES, make_positions


class TokenReader:
    """Embedding, positions and dropout.

    Encoders and decoders are plain objects that hold Keras layers. Called with symbolic tensors
    they lay the graph of a functional model; called with real ones they run the same layers. That
    is how training, encoding and decoding step by step share one forward pass.

    Args:
        config: a `SequenceConfig`.
        embedding: the `TokenEmbedding` that reads the tokens.
        name: prefix of the layers' names.
        dtype: their dtype policy.
        scheme: the scheme of positions by its registered name, or None.
    """

    def __init__(self, config, embedding, name, dtype, scheme):
        self.config = config
        self.embedding = embedding
        self.positions = None
        if scheme is not None:
            bound = {"max_length": config.max_length} if SCHEMES[scheme].is_bounded else {}
            self.positions = make_positions(scheme, name=f"{name}_positions", dtype=dtype, **bound)
        self.dropout = Dropout(config.dropout, name=f"{name}_dropout", dtype=dtype)

    def embed(self, ids, training=None, **where):
        """Embedded tokens `[B, T, M]`; `where` tells their positions, see `place`."""
        return self.dropout(self.place(self.embedding(ids), **where), training=training)

    def place(self, embedded, **where):
        """Vectors `[B, T, M]` that are marked with their positions, see `PositionEncoding`."""
        return embedded if self.positions is None else self.positions(embedded, **where)


class Stack(TokenReader):
    """What reads the tokens before a stack of blocks, and the last normalization after it.

    Args: see `TokenReader`; the config is a `ModelConfig`, and
        field: its field that names the mechanism of the blocks' self-attention.
    """

    def __init__(self, config, embedding, name, dtype, field="attention"):
        super().__init__(config, embedding, name, dtype, config.position_scheme_beside(field))
        self.field = field
        self.norm = None
        if config.normalize_first:  # nothing has normalized the last block's sum yet
            self.norm = make_normalization(
                config.normalization, epsilon=config.epsilon, name=f"{name}_norm", dtype=dtype
            )

    def finish(self, states):
        """What leaves the stack, `[B, T, M]`."""
        return states if self.norm is None else self.norm(states)


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
        tree_positions: what it knows about trees, see `TransformerConfig`.
    """

    def __init__(
        self, config, embedding, num_layers, name="encoder", dtype=None, tree_positions="none"
    ):
        super().__init__(config, embedding, name, dtype, config.encoder_field)
        self.trees = self.structure = None
        if tree_positions != "none":
            self.trees = TreePositions(tree_positions, name=f"{name}_trees", dtype=dtype)
        if tree_positions in ("absolute", "both"):
            self.structure = TreeDepthEncoding(name=f"{name}_structure", dtype=dtype)
        self.blocks = [
            EncoderBlock(**config.block_settings(self.field), name=f"{name}_{i}", dtype=dtype)
            for i in range(num_layers)
        ]

    def __call__(self, ids, training=None, return_attention_scores=False, words=None, heads=None):
        """States `[B, S, M]` of tokens `[B, S]`, with an implicit mask.

        With `return_attention_scores`, also a list of each block's attention weights `[B, H, S, S]`. Where
        the encoder reads trees, `words` and `heads` tell them, see `TreePositions`.
        """
        places = self._places(words, heads)
        states = self.embed(ids, training, depths=places.get("depths"))
        relations, weights = places.get("relations"), []
        for block in self.blocks:
            states = block(
                states,
                return_attention_scores=return_attention_scores,
                relations=relations,
                training=training,
            )
            if return_attention_scores:
                states, block_weights = states
                weights.append(block_weights)
        states = self.finish(states)
        return (states, weights) if return_attention_scores else states

    def place(self, embedded, depths=None, **where):
        placed = super().place(embedded, **where)
        return placed if depths is None else self.structure(placed, positions=depths)

    def _places(self, words, heads):
        """Where the tokens lie in their trees, by name; nothing where that is not read."""
        if self.trees is None:
            if words is not None or heads is not None:
                raise ValueError(
                    "This model reads no trees, and got `source_words` or `source_heads`. Leave "
                    "them out, or make it with tree_positions='absolute', 'relative' or 'both'."
                )
            return {}
        if words is None or heads is None:
            raise ValueError(
                f"This model reads the trees of its source (tree_positions={self.trees.kind!r}): "
                "it needs `source_words`, [B, S] like the source, and `source_heads`, [B, W]; got "
                f"{'neither' if words is heads is None else 'one of them'}. See `TreeBatches`."
            )
        return self.trees(_as_ids(words), _as_ids(heads))


def _as_ids(numbers):
    """Whole numbers as a tensor that layers take; symbolic ones as they are."""
    return numbers if isinstance(numbers, keras.KerasTensor) else tf.cast(numbers, tf.int32)
