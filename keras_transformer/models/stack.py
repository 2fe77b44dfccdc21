"""What encoder and decoder share around their blocks."""

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.positions import SCHEMES, make_positions
from keras_transformer.layers.residual import make_normalization


class Stack:
    """Embedding, positions and dropout before a stack of blocks, and the last normalisation after.

    A stack is a plain object that holds Keras layers. Called with symbolic tensors it lays the
    graph of a functional model; called with real ones it runs the same layers. That is how
    training, encoding and decoding step by step share one forward pass.

    Args:
        config: a `ModelConfig`.
        embedding: the `TokenEmbedding` that reads the tokens.
        name: prefix of the layers' names.
        dtype: their dtype policy.
    """

    def __init__(self, config, embedding, name, dtype):
        self.config = config
        self.embedding = embedding
        self.positions = None
        scheme = config.position_scheme
        if scheme is not None:
            bound = {"max_length": config.max_length} if SCHEMES[scheme].is_bounded else {}
            self.positions = make_positions(scheme, name=f"{name}_positions", dtype=dtype, **bound)
        self.dropout = Dropout(config.dropout, name=f"{name}_dropout", dtype=dtype)
        self.norm = None
        if config.order == "pre":  # nothing has normalised the last block's sum yet
            self.norm = make_normalization(
                config.normalization, epsilon=config.epsilon, name=f"{name}_norm", dtype=dtype
            )

    def embed(self, ids, training=None, **where):
        """Embedded tokens `[B, T, M]`; `where` tells their positions, see `PositionScheme`."""
        embedded = self.embedding(ids)
        if self.positions is not None:
            embedded = self.positions(embedded, **where)
        return self.dropout(embedded, training=training)

    def finish(self, states):
        """What leaves the stack, `[B, T, M]`."""
        return states if self.norm is None else self.norm(states)
