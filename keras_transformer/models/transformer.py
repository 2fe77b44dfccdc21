"""The Transformer: an encoder, and a decoder that attends to its outputs."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import ArgumentError
from keras_transformer.layers import TokenEmbedding, TreePositions
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.tree_positions import KINDS
from keras_transformer.models.base import Seq2SeqModel
from keras_transformer.models.config import BlockModelConfig, Seq2SeqConfig
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.encoder import Encoder, SourceReader


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockModelConfig, Seq2SeqConfig):
    """Settings of a `Transformer`; the defaults are those of the base model of the paper.

    Args:
        encoder_attention: String. Mechanism of the encoder's self-attention. Defaults to
            `attention`; with `tree_positions` "relative" or "both" to "structural", unless
            `attention` reads relations.
        encoder_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        decoder_attention: String. Mechanism of the decoder's self-attention. Required if
            `attention` cannot hide later positions, as "linformer" and "big_bird". Defaults to
            `attention`.
        decoder_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        cross_attention: String. Mechanism of the decoder's attention to the encoder.
        cross_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        tree_positions: String. Positions in dependency trees that the encoder reads: "absolute",
            the depth of each token, see `TreeDepthEncoding`; "relative", the distance of each pair
            of tokens, see `StructuralAttention`; "both"; or "none".
    """

    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    encoder_attention: str | None = None
    encoder_attention_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    decoder_attention: str | None = None
    decoder_attention_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    cross_attention: str = "scaled_dot_product"
    cross_attention_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    tree_positions: str = "none"
    normalize_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("tree_positions", self.tree_positions, ("none", *KINDS))
        reads_relations = MECHANISMS[self.attention].supports_relations
        if self.reads_distances and self.encoder_attention is None and not reads_relations:
            object.__setattr__(self, "encoder_attention", "structural")
        for field in ("encoder_attention", "decoder_attention"):
            options = getattr(self, f"{field}_options")
            if getattr(self, field) is None and options:
                expected = f"empty without `{field}`"
                fix = f"Set `{field}`, or use `attention_options`."
                raise ArgumentError(f"{field}_options", expected, options, fix=fix)
        self.require_usable(self.encoder_field, relations=self.reads_distances)
        try:
            self.require_usable(self.decoder_field, causal=True)
        except ArgumentError as error:
            if self.decoder_attention is not None:
                raise
            fix = f"{error.fix} Or set another mechanism for the decoder: `decoder_attention`."
            raise ArgumentError(error.argument, error.expected, error.got, fix=fix) from error
        self.require_usable("cross_attention", cross=True)

    @property
    def mechanism_fields(self) -> tuple[str, ...]:
        fields = (self.encoder_field, self.decoder_field, "cross_attention")
        return tuple(dict.fromkeys(fields))

    @property
    def source_fields(self) -> tuple[str, ...]:
        return self.encoder_field, "cross_attention"

    @property
    def reads_trees(self) -> bool:
        """Returns whether the dependency trees of the source are among the inputs."""
        return self.tree_positions != "none"

    @property
    def reads_distances(self) -> bool:
        """Returns whether the encoder reads the distance of each pair of tokens in their tree."""
        return self.tree_positions in ("relative", "both")

    @property
    def encoder_field(self) -> str:
        return "attention" if self.encoder_attention is None else "encoder_attention"

    @property
    def decoder_field(self) -> str:
        return "attention" if self.decoder_attention is None else "decoder_attention"


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(Seq2SeqModel):
    """Encoder and decoder (Vaswani et al. 2017, "Attention Is All You Need").

    A functional model with inputs `{"source": [B, S], "target": [B, T]}`, token ids that are padded
    with `padding_id`, and logits `[B, T, V]` of the token after each of `target`. For decoding it
    has `encode`, `initial_state` and `step`, which use the same layers; `generate` searches. With
    `tree_positions`, inputs have `"source_words": [B, S]` and `"source_heads": [B, W]` as well, see
    `TreePositions`.

    Args:
        **settings: The fields of `TransformerConfig`, `dtype` and `name`.

    Example:

    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = TransformerConfig

    @classmethod
    def make_reader(
        cls, config: TransformerConfig, embedding: TokenEmbedding, dtype: keras.DTypePolicy
    ) -> SourceReader:
        encoder = Encoder(
            config.num_encoder_layers,
            **config.stack_settings(config.encoder_field),
            tree_depths=config.tree_positions in ("absolute", "both"),
            dtype=dtype,
            name="encoder",
        )
        trees = None
        if config.reads_trees:
            trees = TreePositions(config.tree_positions, name="tree_positions", dtype=dtype)
        return SourceReader(embedding, encoder, trees)

    @classmethod
    def make_decoder(cls, config: TransformerConfig, dtype: keras.DTypePolicy) -> Decoder:
        return Decoder(
            config.num_decoder_layers,
            **config.stack_settings(config.decoder_field),
            cross_attention=config.mechanism("cross_attention"),
            dtype=dtype,
            name="decoder",
        )

    def attention_weights(
        self, source: Any, target: Any, source_words: Any = None, source_heads: Any = None
    ) -> dict[str, tf.Tensor]:
        """Returns all attention weights of a forward pass: `[B, N, H, ·, ·]` for N blocks, by name.

        The names are "encoder" `[…, S, S]`, "decoder" `[…, T, T]` and "cross" `[…, T, S]`. The
        arguments are those of `alignment`.
        """
        outputs, encoder = self._encoder_outputs(
            source, source_words, source_heads, return_attention_scores=True
        )
        decoder = self._decoder_scores(target, outputs)
        return {
            "encoder": tf.stack(encoder, axis=1),
            "decoder": tf.stack([scores["self"] for scores in decoder], axis=1),
            "cross": tf.stack([scores["cross"] for scores in decoder], axis=1),
        }
