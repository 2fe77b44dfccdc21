"""What encoder and decoder of a Transformer share around their blocks."""

from keras_transformer.layers.residual import make_normalization
from keras_transformer.models.token_reader import TokenReader


class Stack(TokenReader):
    """What reads the tokens before a stack of blocks, and the last normalisation after it.

    Args: see `TokenReader`; the config is a `ModelConfig`, and
        field: its field that names the mechanism of the blocks' self-attention.
    """

    def __init__(self, config, embedding, name, dtype, field="attention"):
        super().__init__(config, embedding, name, dtype, config.position_scheme_beside(field))
        self.field = field
        self.norm = None
        if config.order == "pre":  # nothing has normalised the last block's sum yet
            self.norm = make_normalization(
                config.normalization, epsilon=config.epsilon, name=f"{name}_norm", dtype=dtype
            )

    def finish(self, states):
        """What leaves the stack, `[B, T, M]`."""
        return states if self.norm is None else self.norm(states)
