"""The settings that Transformers share, their presets, and the checks."""

import dataclasses

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_divisible,
    require_positive,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.feed_forward import ACTIVATIONS
from keras_transformer.layers.positions import SCHEMES
from keras_transformer.layers.residual import NORMALIZATIONS, ORDERS
from keras_transformer.models.sequence_config import SequenceConfig

#: Sizes by name. `depth` is the number of blocks of each stack.
PRESETS = {
    # Wu et al. 2021, "Good for Misconceived Reasons" (Transformer-Tiny, for Multi30k)
    "tiny": {"depth": 4, "width": 128, "feed_forward_width": 256, "num_heads": 4},
    # Between the two, for corpora of some 100,000 sentences.
    "small": {"depth": 6, "width": 256, "feed_forward_width": 1024, "num_heads": 4},
    # Vaswani et al. 2017, "Attention Is All You Need", table 3
    "base": {"depth": 6, "width": 512, "feed_forward_width": 2048, "num_heads": 8},
    "big": {
        "depth": 6,
        "width": 1024,
        "feed_forward_width": 4096,
        "num_heads": 16,
        "dropout": 0.3,
    },
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(SequenceConfig):
    """Settings shared by all Transformers; checked when made.

    Attributes: those of `SequenceConfig`, and
        feed_forward_width: F, size of the feed-forward networks' inner layer.
        num_heads: H, heads of attention; must divide `width`.
        num_key_value_heads: heads of keys and values; by default `num_heads`.
        attention: mechanism of self-attention, by its registered name.
        attention_options: its settings, such as `{"max_distance": 8}`.
        positions: scheme added to the embeddings, by its registered name; "none"; or "auto", which
            is "sinusoidal", or "none" where the mechanism tells positions apart by itself.
        activation: of the feed-forward networks, see `FeedForward`.
        normalization: "layer" or "rms".
        order: "post", normalisation after each residual sum, or "pre", before each sublayer.
        attention_dropout: rate on attention weights.
        activation_dropout: rate inside the feed-forward networks.
        use_bias: whether projections and dense layers have biases.
        epsilon: of the normalisations.
    """

    feed_forward_width: int = 2048
    num_heads: int = 8
    num_key_value_heads: int | None = None
    attention: str = "scaled_dot_product"
    attention_options: dict = dataclasses.field(default_factory=dict)
    positions: str = "auto"
    activation: str = "relu"
    normalization: str = "layer"
    order: str = "pre"
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    use_bias: bool = True
    epsilon: float = 1e-6

    presets = PRESETS
    #: The fields that name the mechanisms of an encoder's and a decoder's self-attention.
    encoder_field = "attention"
    decoder_field = "attention"
    mechanism_fields = ("attention",)

    def __post_init__(self):
        super().__post_init__()
        for name in ("feed_forward_width", "num_heads"):
            require_positive_integer(name, getattr(self, name))
        require_divisible("width", self.width, "num_heads", self.num_heads)
        if self.num_key_value_heads is not None:
            require_positive_integer("num_key_value_heads", self.num_key_value_heads)
            require_divisible(
                "num_heads", self.num_heads, "num_key_value_heads", self.num_key_value_heads
            )
        for name in ("attention_dropout", "activation_dropout"):
            require_rate(name, getattr(self, name))
        require_choice("positions", self.positions, (*SCHEMES, "auto", "none"))
        require_choice("activation", self.activation, ACTIVATIONS)
        require_choice("normalization", self.normalization, NORMALIZATIONS)
        require_choice("order", self.order, ORDERS)
        require_positive("epsilon", self.epsilon)
        require_boolean("use_bias", self.use_bias)
        self.mechanism("attention")

    @property
    def position_scheme(self):
        """The scheme that `positions` stands for beside `attention`, or None."""
        return self.position_scheme_beside("attention")

    def position_scheme_beside(self, field):
        """The scheme that `positions` stands for beside the mechanism of a field, or None."""
        if self.positions == "auto":
            kind = MECHANISMS[getattr(self, field)]
            return None if kind.encodes_positions else "sinusoidal"
        return None if self.positions == "none" else self.positions

    def block_settings(self, field="attention"):
        """Keyword arguments for `EncoderBlock` and `DecoderBlock`, with a field's mechanism."""
        return {
            "num_heads": self.num_heads,
            "feed_forward_width": self.feed_forward_width,
            "num_key_value_heads": self.num_key_value_heads,
            "attention": self.mechanism(field),
            "activation": self.activation,
            "normalization": self.normalization,
            "order": self.order,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "use_bias": self.use_bias,
            "epsilon": self.epsilon,
        }
