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
    """Settings of a `Transformer`, with the arguments of that class.

    The defaults are those of the base model of Vaswani et al. 2017.
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
        for side in ("encoder", "decoder"):
            self._require_no_options_alone(side)
        self.require_usable(self.encoder_field, relations=self.reads_distances)
        self._require_usable_decoder()
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
        """Returns whether the encoder reads the distance of each two tokens in their tree."""
        return self.tree_positions in ("relative", "both")

    @property
    def encoder_field(self) -> str:
        return "attention" if self.encoder_attention is None else "encoder_attention"

    @property
    def decoder_field(self) -> str:
        return "attention" if self.decoder_attention is None else "decoder_attention"

    def _require_no_options_alone(self, side: str) -> None:
        field = f"{side}_attention"
        options = getattr(self, f"{field}_options")
        if getattr(self, field) is None and options:
            raise ArgumentError(
                f"{field}_options",
                f"empty without `{field}`",
                options,
                fix=f"Set `{field}`, or use `attention_options`.",
            )

    def _require_usable_decoder(self) -> None:
        try:
            self.require_usable(self.decoder_field, causal=True)
        except ArgumentError as error:
            if self.decoder_attention is not None:
                raise
            fix = f"{error.fix} Or set another mechanism for the decoder: `decoder_attention`."
            raise ArgumentError(error.argument, error.expected, error.got, fix=fix) from error


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(Seq2SeqModel):
    """Encoder and decoder (Vaswani et al. 2017, "Attention Is All You Need").

    A functional model with inputs `{"source": [B, S], "target": [B, T]}`, token ids that are padded
    with `padding_id`, and logits `[B, T, V]` of the token after each of `target`. For decoding it
    has `encode`, `initial_state` and `step`, which use the same layers; `generate` searches. With
    `tree_positions`, inputs have `"source_words": [B, S]` and `"source_heads": [B, W]` as well, see
    `TreePositions`.

    Args:
        vocabulary_size: Integer. V, number of tokens.
        hidden_dim: Integer. M, size of the hidden states. Defaults to 512.
        max_length: Integer. Maximum length, where positions or caches have one. Defaults to 1024.
        dropout: Float. Dropout rate of embeddings and sublayers' outputs. Defaults to 0.1.
        attention: String. Mechanism of self-attention, a name in
            `keras_transformer.layers.MECHANISMS`. Defaults to "scaled_dot_product".
        attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        padding_id: Integer. Token id that fills the rows of a batch. Defaults to 0.
        unknown_id: Integer. Token id of what the vocabulary cannot spell. Defaults to 1.
        start_id: Integer. Token id that the decoder starts with. Defaults to 2.
        end_id: Integer. Token id that ends every source and target. Defaults to 3.
        intermediate_dim: Integer. F, inner size of the feed-forward networks. Defaults to 2048.
        num_heads: Integer. H, number of attention heads; must divide `hidden_dim`. Defaults to 8.
        num_key_value_heads: Integer. Number of heads of keys and values. Defaults to `num_heads`.
        positions: String. Position encoding, a name in `layers.POSITION_ENCODINGS`; "none"; or
            "auto": "none" beside a mechanism that encodes positions, else "sinusoidal". Defaults to
            "auto".
        feed_forward: String. A name in `layers.FEED_FORWARDS`. Defaults to "dense".
        feed_forward_options: Dictionary. Further arguments of it. Defaults to none.
        activation: String or function. Activation, see `FeedForward`. Defaults to "relu".
        normalization: String. "layer" or "rms". Defaults to "layer".
        normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to False.
        attention_dropout: Float. Dropout rate of the attention weights. Defaults to 0.
        activation_dropout: Float. Dropout rate inside the feed-forward networks. Defaults to 0.
        use_bias: Boolean. Whether projections and dense layers have biases. Defaults to True.
        epsilon: Float. Added to the variance in normalizations. Defaults to 1e-6.
        target_vocabulary_size: Integer. Number of target tokens. Defaults to `vocabulary_size`.
        num_encoder_layers: Integer. Number of encoder blocks. Defaults to 6.
        num_decoder_layers: Integer. Number of decoder blocks. Defaults to 6.
        share_embeddings: String. Which embedding tables are one: "all" (source, target and output),
            "target" (target and output) or "none". Defaults to "all".
        copies: Boolean. Whether source tokens can be copied, see `PointerGenerator`. Needs
            share_embeddings="all". Defaults to False.
        coverage_weight: Float. Weight of a `CoverageLoss`; 0 for none. Defaults to 0.
        encoder_attention: String. Mechanism of the encoder's self-attention. Defaults to
            `attention`; with `tree_positions` "relative" or "both" to "structural", unless
            `attention` reads relations.
        encoder_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        decoder_attention: String. Mechanism of the decoder's self-attention. Needed where
            `attention` cannot hide the future, as "linformer" and "big_bird". Defaults to
            `attention`.
        decoder_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        cross_attention: String. Mechanism of the decoder's attention to the encoder. Defaults to
            "scaled_dot_product".
        cross_attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        tree_positions: String. What the encoder knows about the dependency trees of its sentences:
            "absolute", the depth of each token, see `TreeDepthEncoding`; "relative", the distance
            of each two, see `StructuralAttention`; "both"; or "none". Defaults to "none".
        dtype: Dtype policy of all layers, such as "mixed_bfloat16". Defaults to Keras' global one.
        name: String. Name of the model.

    Example:

    >>> model = Transformer.from_size("tiny", vocabulary_size=1000)
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = TransformerConfig

    @staticmethod
    def make_reader(
        config: TransformerConfig, embedding: TokenEmbedding, dtype: keras.DTypePolicy
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

    @staticmethod
    def make_decoder(config: TransformerConfig, dtype: keras.DTypePolicy) -> Decoder:
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

        They are "encoder" `[…, S, S]`, "decoder" `[…, T, T]` and "cross" `[…, T, S]`. The arguments
        are those of `alignment`.
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
