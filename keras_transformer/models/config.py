"""Settings that several models have in common."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import keras

from keras_transformer._utils.checks import (
    require_boolean,
    require_boolean_or_none,
    require_choice,
    require_divisible,
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
    require_rate,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.feed_forwards.feed_forward import require_activation
from keras_transformer.layers.feed_forwards.registry import FEED_FORWARDS, make_feed_forward
from keras_transformer.layers.positions import POSITION_ENCODINGS, make_position_encoding
from keras_transformer.layers.residual import NORMALIZATIONS
from keras_transformer.text import SpecialIds


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings of every model, checked when a config is made.

    They are the arguments of the model's class, whose docstring lists those of all base classes.

    Args:
        vocabulary_size: Integer. V, number of tokens.
        hidden_dim: Integer. M, size of the hidden states.
        max_length: Integer. Maximum length, where positions or caches have one.
        dropout: Float. Dropout rate of the embeddings and of the outputs of sublayers.
        attention: String. Mechanism of self-attention, a name in
            `keras_transformer.layers.MECHANISMS`.
        attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        scale_embeddings: Boolean. Whether token embeddings are multiplied by sqrt(M).
        padding_id: Integer. Token id that fills the rows of a batch.
        unknown_id: Integer. Token id of what the vocabulary cannot spell.
        start_id: Integer. Token id that a decoder starts with.
        end_id: Integer. Token id that ends every text.
    """

    vocabulary_size: int
    hidden_dim: int = 512
    max_length: int = 1024
    dropout: float = 0.1
    attention: str = "scaled_dot_product"
    attention_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    scale_embeddings: bool = True
    padding_id: int = 0
    unknown_id: int = 1
    start_id: int = 2
    end_id: int = 3

    #: Sizes by name; `depth` is the value of all `depth_fields`.
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Fields that hold a number of layers.
    depth_fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_size(cls, size: str, **settings: Any) -> Self:
        """Returns the config of a named size.

        Args:
            size: "tiny", "small", "base" or "big".
            **settings: Fields of the config; `vocabulary_size` is required.

        >>> from keras_transformer.models import TransformerConfig
        >>> TransformerConfig.from_size("tiny", vocabulary_size=8000, dropout=0.3).hidden_dim
        128
        """
        values = dict(cls.sizes[require_choice("size", size, cls.sizes)])
        depth = values.pop("depth")
        return cls(**{**dict.fromkeys(cls.depth_fields, depth), **values, **settings})

    def __post_init__(self) -> None:
        for name in ("vocabulary_size", "hidden_dim", "max_length", *self.depth_fields):
            require_positive_integer(name, getattr(self, name))
        require_rate("dropout", self.dropout)
        require_boolean("scale_embeddings", self.scale_embeddings)
        for name in ("padding_id", "unknown_id", "start_id", "end_id"):
            require_integer(name, getattr(self, name), minimum=0)
        _ = self.special_ids  # checks that the ids are consistent

    @property
    def special_ids(self) -> SpecialIds:
        """Returns the ids of padding, unknown, start and end."""
        return SpecialIds(self.padding_id, self.unknown_id, self.start_id, self.end_id)

    @property
    def position_scheme(self) -> str | None:
        """Returns the name of the position encoding of the embeddings, or None."""
        return None

    @property
    def mechanism_fields(self) -> tuple[str, ...]:
        """Returns the fields that name an attention mechanism."""
        return ("attention",)

    @property
    def source_fields(self) -> tuple[str, ...]:
        """Returns the fields of the mechanisms that attend to the source or, without one, all."""
        return self.mechanism_fields

    @property
    def target_fields(self) -> tuple[str, ...]:
        """Returns the fields of the mechanisms that limit the length of what is decoded."""
        return ()

    def mechanism(self, field: str) -> keras.layers.Layer:
        """Returns the mechanism that a field, such as "attention", and its options describe."""
        name, options = getattr(self, field), getattr(self, f"{field}_options")
        kind = MECHANISMS[require_choice(field, name, MECHANISMS)]
        limit = {"max_length": self.max_length} if kind.has_max_length else {}
        try:
            return kind(**{**limit, **options})
        except (TypeError, ValueError) as error:
            if not options:
                raise
            expected = f"options of the attention mechanism {name!r}"
            raise ArgumentError(f"{field}_options", expected, options, fix=f"{error}") from error

    def arguments_of(self, layer_class: type[Any], field: str = "attention") -> dict[str, Any]:
        """Returns the fields that are arguments of a layer, by name.

        The argument `attention` is the mechanism of a `field`, and `positions` the position scheme.
        """
        arguments = inspect.signature(layer_class.__init__).parameters
        names = [each.name for each in dataclasses.fields(self) if each.name in arguments]
        values = {name: getattr(self, name) for name in names}
        if "attention" in values:
            values["attention"] = self.mechanism(field)
        if "positions" in values:
            values["positions"] = self.position_scheme
        return values

    def require_usable(self, field: str, **uses: bool) -> None:
        """Raises an `ArgumentError` if the mechanism of a field does not support all `uses`.

        The uses are the arguments of `AttentionMechanism.require_support`.
        """
        mechanism = self.mechanism(field)
        try:
            mechanism.require_support(**uses)
        except UserError as error:
            expected = "an attention mechanism that supports its use in the model"
            raise ArgumentError(field, expected, getattr(self, field), fix=f"{error}") from error

    def length_limits(self, fields: Iterable[str] | None = None) -> dict[str, int]:
        """Returns how many tokens a model can read, by the fields that set a limit.

        `fields` names the mechanisms to look at, by default all.
        """
        limits: dict[str, int] = {}
        scheme = self.position_scheme
        if scheme is not None and POSITION_ENCODINGS[scheme].has_max_length:
            limits["positions"] = self.max_length
        for field in self.mechanism_fields if fields is None else fields:
            mechanism = self.mechanism(field)
            if mechanism.has_max_length:
                limits[field] = mechanism.max_length
        return limits


#: Sizes of Transformers by name. `depth` is the number of blocks of each stack.
SIZES: dict[str, dict[str, Any]] = {
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
class BlockModelConfig(ModelConfig):
    """Settings of the models that are made of Transformer blocks.

    Args:
        intermediate_dim: Integer. F, inner size of the feed-forward networks.
        num_heads: Integer. H, number of attention heads; must divide `hidden_dim`, unless `key_dim`
            is given.
        num_key_value_heads: Integer. Number of heads of keys and values. Defaults to `num_heads`.
        key_dim: Integer. D, size of each attention head. Defaults to M / H.
        query_key_normalization: String. "layer" or "rms", to normalize the queries and keys of each
            head, see `MultiHeadAttention`; or None.
        positions: String. Position encoding, a name in `layers.POSITION_ENCODINGS`; "none"; or
            "auto": "none" with a mechanism that encodes positions, else "sinusoidal".
        positions_options: Dictionary. Further arguments of the position encoding. Defaults to none.
        normalize_embeddings: Boolean. Whether embeddings are normalized after positions are added.
        feed_forward: String. A name in `layers.FEED_FORWARDS`.
        feed_forward_options: Dictionary. Further arguments of the network. Defaults to none.
        activation: String or function. Activation, see `FeedForward`.
        normalization: String. "layer" or "rms".
        normalize_first: Boolean. Pre-norm (True) or post-norm (False).
        final_normalization: Boolean. Whether the outputs of a stack are normalized. Defaults to
            `normalize_first`.
        attention_dropout: Float. Dropout rate of the attention weights.
        activation_dropout: Float. Dropout rate inside the feed-forward networks.
        use_bias: Boolean. Whether projections and dense layers have biases.
        attention_bias: Boolean. Whether the projections of attention have biases. Defaults to
            `use_bias`.
        attention_output_bias: Boolean. Whether the output projection of attention has a bias.
            Defaults to `attention_bias`.
        epsilon: Float. Added to the variance in normalizations.
    """

    intermediate_dim: int = 2048
    num_heads: int = 8
    num_key_value_heads: int | None = None
    key_dim: int | None = None
    query_key_normalization: str | None = None
    positions: str = "auto"
    positions_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    normalize_embeddings: bool = False
    feed_forward: str = "dense"
    feed_forward_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    activation: str | Callable[..., Any] = "relu"
    normalization: str = "layer"
    normalize_first: bool = True
    final_normalization: bool | None = None
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    use_bias: bool = True
    attention_bias: bool | None = None
    attention_output_bias: bool | None = None
    epsilon: float = 1e-6

    sizes: ClassVar[dict[str, dict[str, Any]]] = SIZES

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("intermediate_dim", "num_heads"):
            require_positive_integer(name, getattr(self, name))
        if self.key_dim is None:
            require_divisible("hidden_dim", self.hidden_dim, "num_heads", self.num_heads)
        else:
            require_positive_integer("key_dim", self.key_dim)
        if (heads := self.num_key_value_heads) is not None:
            require_positive_integer("num_key_value_heads", heads)
            require_divisible("num_heads", self.num_heads, "num_key_value_heads", heads)
        for name in ("attention_dropout", "activation_dropout"):
            require_rate(name, getattr(self, name))
        require_choice("positions", self.positions, (*POSITION_ENCODINGS, "auto", "none"))
        require_choice("feed_forward", self.feed_forward, FEED_FORWARDS)
        require_activation("activation", self.activation)
        require_choice("normalization", self.normalization, NORMALIZATIONS)
        require_boolean("normalize_first", self.normalize_first)
        require_positive("epsilon", self.epsilon)
        for name in ("use_bias", "normalize_embeddings"):
            require_boolean(name, getattr(self, name))
        for name in ("attention_bias", "attention_output_bias", "final_normalization"):
            require_boolean_or_none(name, getattr(self, name))
        if self.query_key_normalization is not None:
            kinds = NORMALIZATIONS
            require_choice("query_key_normalization", self.query_key_normalization, kinds)
        self._check_positions_options()
        self.mechanism("attention")
        if self.feed_forward_options:
            # Creating the network checks its options. Without options there is nothing to check.
            make_feed_forward(
                self.feed_forward,
                self.feed_forward_options,
                intermediate_dim=self.intermediate_dim,
                activation=self.activation,
                dropout=self.activation_dropout,
                use_bias=self.use_bias,
            )

    def _check_positions_options(self) -> None:
        if not self.positions_options:
            return  # Without options there is nothing to check.
        if (scheme := self.position_scheme) is None:
            expected = "empty without a position encoding"
            raise ArgumentError("positions_options", expected, self.positions_options)
        make_position_encoding(scheme, self.max_length, self.positions_options)

    @property
    def encoder_field(self) -> str:
        """Returns the field that names the mechanism of the encoder's self-attention."""
        return "attention"

    @property
    def decoder_field(self) -> str:
        """Returns the field that names the mechanism of the decoder's self-attention."""
        return "attention"

    @property
    def target_fields(self) -> tuple[str, ...]:
        return (self.decoder_field,)

    @property
    def position_scheme(self) -> str | None:
        return self.position_scheme_beside("attention")

    def position_scheme_beside(self, field: str) -> str | None:
        """Returns the name of the position encoding for the mechanism of a field, or None."""
        if self.positions == "auto":
            kind = MECHANISMS[getattr(self, field)]
            return None if kind.encodes_positions else "sinusoidal"
        return None if self.positions == "none" else self.positions

    def stack_settings(self, field: str) -> dict[str, Any]:
        """Returns the arguments of a stack of blocks; the field names their self-attention."""
        return {
            **self.arguments_of(EncoderBlock, field),
            "positions": (scheme := self.position_scheme_beside(field)),
            "positions_options": self.positions_options if scheme else {},
            "max_length": self.max_length,
            "normalize_embeddings": self.normalize_embeddings,
            "final_normalization": self.final_normalization,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(ModelConfig):
    """Settings of the models that read a source and write a target.

    Args:
        target_vocabulary_size: Integer. Number of target tokens. Defaults to `vocabulary_size`.
        num_encoder_layers: Integer. Number of blocks or layers of the encoder.
        num_decoder_layers: Integer. Number of blocks or layers of the decoder.
        share_embeddings: String. Which embedding tables are one: "all" (source, target and output),
            "target" (target and output), "inputs" (source and target) or "none".
        output_bias: Boolean. Whether the logits have a bias for each token.
        copies: Boolean. Whether source tokens can be copied, see `PointerGenerator`. Needs
            share_embeddings="all".
        coverage_weight: Float. Weight of a `CoverageLoss`; 0 for none.
    """

    target_vocabulary_size: int | None = None
    num_encoder_layers: int = 4
    num_decoder_layers: int = 4
    share_embeddings: str = "all"
    output_bias: bool = False
    copies: bool = False
    coverage_weight: float = 0.0

    depth_fields: ClassVar[tuple[str, ...]] = ("num_encoder_layers", "num_decoder_layers")

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = ("all", "target", "inputs", "none")
        require_choice("share_embeddings", self.share_embeddings, choices)
        for name in ("copies", "output_bias"):
            require_boolean(name, getattr(self, name))
        require_not_negative("coverage_weight", self.coverage_weight)
        if self.target_vocabulary_size is not None:
            require_positive_integer("target_vocabulary_size", self.target_vocabulary_size)
        is_one_table = self.share_embeddings == "all"
        is_one_vocabulary = self.share_embeddings in ("all", "inputs")
        if is_one_vocabulary and self.target_vocabulary_size not in (None, self.vocabulary_size):
            raise ArgumentError(
                "share_embeddings",
                "'target' or 'none' with two vocabularies (vocabulary_size="
                f"{self.vocabulary_size}, target_vocabulary_size={self.target_vocabulary_size})",
                self.share_embeddings,
                fix="Use share_embeddings='target'.",
            )
        if self.copies and not is_one_table:
            raise ArgumentError(
                "share_embeddings",
                "'all' with `copies`, which needs one vocabulary for source and target",
                self.share_embeddings,
                fix="Use share_embeddings='all'.",
            )
