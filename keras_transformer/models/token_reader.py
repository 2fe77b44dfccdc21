"""What comes before the layers of an encoder or a decoder: tokens as vectors."""

from keras_transformer.layers.dropout import Dropout
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
        """Vectors `[B, T, M]` that are marked with their positions, see `PositionScheme`."""
        return embedded if self.positions is None else self.positions(embedded, **where)
