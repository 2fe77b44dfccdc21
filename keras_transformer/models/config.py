"""The settings of the models with a source that are no Transformers."""

import dataclasses
from typing import ClassVar

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_divisible,
    require_integer,
    require_positive,
    require_positive_integer,
    require_rate,
)
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.feed_forward import ACTIVATIONS
from keras_transformer.layers.normalization import NORMALIZATIONS
from keras_transformer.layers.positions import SCHEMES
from keras_transformer.models.heads import require_shareable, require_usable_output


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceConfig:
    """Settings shared by all models; checked when made.

    Attributes:
        vocabulary_size: V, number of tokens.
        hidden_dim: M, size of the vectors between layers.
        max_length: number of positions of the "learned" scheme and of mechanisms that have an end,
            and of a decoder's cache where no other is asked for.
        dropout: rate on embeddings and on what layers pass on.
        padding_id: the token id that stands for nothing.
    """

    vocabulary_size: int
    hidden_dim: int = 512
    max_length: int = 1024
    dropout: float = 0.1
    padding_id: int = 0

    #: Sizes by name; `depth` sets the `depth_fields`.
    presets: ClassVar[dict] = {}
    #: Names of the fields that a preset's `depth` sets.
    depth_fields = ()
    #: Names of the fields that name a mechanism.
    mechanism_fields = ()
    #: The scheme of positions that is added to the embeddings, or None.
    position_scheme = None

    @classmethod
    def preset(cls, name, **settings):
        """The settings known by `name`, with any of them changed.

        >>> from keras_transformer.models import TransformerConfig
        >>> TransformerConfig.preset("tiny", vocabulary_size=8000, dropout=0.3).hidden_dim
        128
        """
        values = dict(cls.presets[require_choice("preset", name, cls.presets)])
        depth = values.pop("depth")
        return cls(**{**dict.fromkeys(cls.depth_fields, depth), **values, **settings})

    def __post_init__(self):
        for name in ("vocabulary_size", "hidden_dim", "max_length", *self.depth_fields):
            require_positive_integer(name, getattr(self, name))
        require_rate("dropout", self.dropout)
        require_integer("padding_id", self.padding_id, minimum=0)

    def mechanism(self, field):
        """The attention mechanism that a field and its options name, as a pattern for layers."""
        name, options = getattr(self, field), getattr(self, f"{field}_options")
        kind = MECHANISMS[require_choice(field, name, MECHANISMS)]
        bound = {"max_length": self.max_length} if kind.is_bounded else {}
        try:
            return kind(**{**bound, **options})
        except (TypeError, ValueError) as error:
            if not options:
                raise
            raise ValueError(f"`{field}_options` of {name!r} do not fit: {error}") from error

    def require_usable(self, field, **use):
        """Raises `ValueError` if the mechanism of a field cannot be used so.

        Args:
            field: such as "attention".
            **use: see `AttentionMechanism.check_use`.
        """
        mechanism = self.mechanism(field)
        try:
            mechanism.check_use(**use)
        except ValueError as error:
            raise ValueError(f"`{field}`: {error}") from error

    @property
    def source_fields(self):
        """Those of the `mechanism_fields` that are about the source, or all where there is none."""
        return self.mechanism_fields

    def length_limits(self, fields=None):
        """How many tokens a model can read, by the fields whose choice sets an end to them.

        Args:
            fields: those of the mechanisms to look at; by default all.
        """
        limits, scheme = {}, self.position_scheme
        if scheme is not None and SCHEMES[scheme].is_bounded:
            limits["positions"] = self.max_length
        for field in self.mechanism_fields if fields is None else fields:
            mechanism = self.mechanism(field)
            if mechanism.is_bounded:
                limits[field] = mechanism.max_length
        return limits


#: Sizes by name. `depth` is the number of blocks of each stack.
PRESETS = {
    # Wu et al. 2021, "Good for Misconceived Reasons" (Transformer-Tiny, for Multi30k)
    "tiny": {"depth": 4, "hidden_dim": 128, "intermediate_dim": 256, "num_heads": 4},
    # Between the two, for corpora of some 100,000 sentences.
    "small": {"depth": 6, "hidden_dim": 256, "intermediate_dim": 1024, "num_heads": 4},
    # Vaswani et al. 2017, "Attention Is All You Need", table 3
    "base": {"depth": 6, "hidden_dim": 512, "intermediate_dim": 2048, "num_heads": 8},
    "big": {
        "depth": 6,
        "hidden_dim": 1024,
        "intermediate_dim": 4096,
        "num_heads": 16,
        "dropout": 0.3,
    },
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(SequenceConfig):
    """Settings shared by all Transformers; checked when made.

    Attributes: those of `SequenceConfig`, and
        intermediate_dim: F, size of the feed-forward networks' inner layer.
        num_heads: H, heads of attention; must divide `hidden_dim`.
        num_key_value_heads: heads of keys and values; by default `num_heads`.
        attention: mechanism of self-attention, by its registered name.
        attention_options: its settings, such as `{"max_distance": 8}`.
        positions: scheme added to the embeddings, by its registered name; "none"; or "auto", which
            is "sinusoidal", or "none" where the mechanism tells positions apart by itself.
        activation: of the feed-forward networks, see `FeedForward`.
        normalization: "layer" or "rms".
        normalize_first: whether each sublayer normalizes its input (pre-norm) or the residual sum
            (post-norm).
        attention_dropout: rate on attention weights.
        activation_dropout: rate inside the feed-forward networks.
        use_bias: whether projections and dense layers have biases.
        epsilon: of the normalizations.
    """

    intermediate_dim: int = 2048
    num_heads: int = 8
    num_key_value_heads: int | None = None
    attention: str = "scaled_dot_product"
    attention_options: dict = dataclasses.field(default_factory=dict)
    positions: str = "auto"
    activation: str = "relu"
    normalization: str = "layer"
    normalize_first: bool = True
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
        for name in ("intermediate_dim", "num_heads"):
            require_positive_integer(name, getattr(self, name))
        require_divisible("hidden_dim", self.hidden_dim, "num_heads", self.num_heads)
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
        require_boolean("normalize_first", self.normalize_first)
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
            "intermediate_dim": self.intermediate_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "attention": self.mechanism(field),
            "activation": self.activation,
            "normalization": self.normalization,
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "use_bias": self.use_bias,
            "epsilon": self.epsilon,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceConfig(SequenceConfig):
    """Settings of models that attend to their source and to nothing else.

    Attributes: those of `SequenceConfig`, and
        target_vocabulary_size: number of target tokens, where they are not the source's.
        num_encoder_layers, num_decoder_layers: numbers of layers.
        attention: mechanism of the attention to the source, by its registered name. It is used as
            it is, with one head and without projections.
        attention_options: its settings.
        share_embeddings: which tables are one: "all" (source, target and output), "target" (target
            and output) or "none".
        copies: whether tokens of the source can be copied, see `PointerGenerator`; needs one
            vocabulary for both, as `share_embeddings="all"` does.
        coverage_weight: of the loss for attending to the same place again, see `CoverageLoss`; 0
            for none.
    """

    target_vocabulary_size: int | None = None
    num_encoder_layers: int = 4
    num_decoder_layers: int = 4
    attention: str = "scaled_dot_product"
    attention_options: dict = dataclasses.field(default_factory=dict)
    share_embeddings: str = "all"
    copies: bool = False
    coverage_weight: float = 0.0

    depth_fields = ("num_encoder_layers", "num_decoder_layers")
    mechanism_fields = ("attention",)

    def __post_init__(self):
        super().__post_init__()
        require_shareable(self)
        require_usable_output(self)
        self.require_usable("attention", is_cached=True, is_cross=True)
