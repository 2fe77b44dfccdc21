"""The Transformer: an encoder, and a decoder that attends to what it made."""

import dataclasses

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_choice
from keras_transformer.layers.attention import MECHANISMS
from keras_transformer.layers.tree_positions import KINDS
from keras_transformer.models.base import SourceModel
from keras_transformer.models.config import ModelConfig
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.encoder import Encoder
from keras_transformer.models.heads import (
    OutputHead,
    make_tables,
    require_shareable,
    require_usable_output,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Settings of a `Transformer`; by default those of the paper's base model.

    Attributes: those of `ModelConfig`, and
        target_vocabulary_size: number of target tokens, where they are not the source's.
        num_encoder_layers, num_decoder_layers: numbers of blocks.
        encoder_attention, encoder_attention_options: mechanism of the encoder's self-attention,
            where it is not `attention`. With `tree_positions` "relative" or "both" it must read
            relations, and is "structural" where nothing else is said.
        decoder_attention, decoder_attention_options: mechanism of the decoder's self-attention,
            where it is not `attention`: one that cannot hide the future, such as "linformer" or
            "big_bird", is for encoders only.
        cross_attention, cross_attention_options: mechanism from decoder to encoder.
        share_embeddings: which tables are one: "all" (source, target and output), "target" (target
            and output) or "none".
        copies: whether tokens of the source can be copied, see `PointerGenerator`; needs one
            vocabulary for both, as `share_embeddings="all"` does.
        coverage_weight: of the loss for attending to the same place again; 0 for none. Why coverage
            is no input of the attention here, as in `RecurrentSeq2Seq`, is told by `CoverageLoss`.
        tree_positions: what the encoder knows about the dependency trees of its sentences:
            "absolute", the depth of each token, see `TreeDepthEncoding`; "relative", the distance
            of each two, see `StructuralAttention`; "both"; or "none". The trees come as two more inputs,
            "source_words" and "source_heads", see `TreePositions`.
    """

    target_vocabulary_size: int | None = None
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    encoder_attention: str | None = None
    encoder_attention_options: dict = dataclasses.field(default_factory=dict)
    decoder_attention: str | None = None
    decoder_attention_options: dict = dataclasses.field(default_factory=dict)
    cross_attention: str = "scaled_dot_product"
    cross_attention_options: dict = dataclasses.field(default_factory=dict)
    share_embeddings: str = "all"
    copies: bool = False
    coverage_weight: float = 0.0
    tree_positions: str = "none"
    normalize_first: bool = False

    depth_fields = ("num_encoder_layers", "num_decoder_layers")

    def __post_init__(self):
        super().__post_init__()
        require_choice("tree_positions", self.tree_positions, ("none", *KINDS))
        is_left_open = self.encoder_attention is None
        if self.reads_distances and is_left_open and not MECHANISMS[self.attention].reads_relations:
            object.__setattr__(self, "encoder_attention", "structural")
        for side in ("encoder", "decoder"):
            self._require_no_options_alone(side)
        self.require_usable(self.encoder_field, has_relations=self.reads_distances)
        self._require_usable_decoder()
        self.require_usable("cross_attention", is_cross=True)
        require_shareable(self)
        require_usable_output(self)

    @property
    def mechanism_fields(self):
        """The names of the fields that name a mechanism."""
        fields = (self.encoder_field, self.decoder_field, "cross_attention")
        return tuple(dict.fromkeys(fields))

    @property
    def source_fields(self):
        return self.encoder_field, "cross_attention"

    @property
    def reads_trees(self):
        """Whether the trees of the source are among the inputs."""
        return self.tree_positions != "none"

    @property
    def reads_distances(self):
        """Whether the encoder knows the distance of each two tokens in their tree."""
        return self.tree_positions in ("relative", "both")

    @property
    def encoder_field(self):
        """The field that names the mechanism of the encoder's self-attention."""
        return "attention" if self.encoder_attention is None else "encoder_attention"

    @property
    def decoder_field(self):
        """The field that names the mechanism of the decoder's self-attention."""
        return "attention" if self.decoder_attention is None else "decoder_attention"

    def _require_no_options_alone(self, side):
        field = f"{side}_attention"
        if getattr(self, field) is None and getattr(self, f"{field}_options"):
            raise ValueError(
                f"`{field}_options` are those of `{field}`, which is not given. Without it, the "
                f"{side} has `attention` and `attention_options`."
            )

    def _require_usable_decoder(self):
        try:
            self.require_usable(self.decoder_field, is_causal=True)
        except ValueError as error:
            if self.decoder_attention is not None:
                raise
            raise ValueError(
                f"{error} Or give the decoder another than the encoder: `decoder_attention`."
            ) from error


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(SourceModel):
    """Encoder and decoder (Vaswani et al. 2017, "Attention Is All You Need").

    A functional model: inputs `{"source": [B, S], "target": [B, T]}`, integer ids padded with
    `padding_id`; outputs logits `[B, T, V]` of the token after each of `target`. For decoding it
    answers `encode`, `initial_state` and `step`, with the same layers. With `tree_positions`,
    inputs have `"source_words": [B, S]` and `"source_heads": [B, W]` too, see `TreePositions`.

    Args:
        config: a `TransformerConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = Transformer.from_preset("tiny", vocabulary_size=1000)
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = TransformerConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        tables = make_tables(config, dtype)
        encoder = Encoder(
            config,
            tables.source,
            config.num_encoder_layers,
            dtype=dtype,
            tree_positions=config.tree_positions,
        )
        decoder = Decoder(
            config,
            tables.target,
            OutputHead(tables.output, dtype, config.copies, config.coverage_weight),
            config.num_decoder_layers,
            dtype=dtype,
            cross_attention=config.mechanism("cross_attention"),
        )
        further_inputs = ("source_words", "source_heads") if config.reads_trees else ()
        super().__init__(config, dtype, encoder, decoder, further_inputs, **kwargs)

    @staticmethod
    def lay(encoder, decoder, source, target, source_words=None, source_heads=None):
        memory = encoder(source, words=source_words, heads=source_heads)
        return decoder(target, memory, source=source)

    def encode(self, source, source_words=None, source_heads=None):
        """The `Memory` of source tokens `[B, S]`, and of their trees where the model reads them.

        Args:
            source: int32 `[B, S]`.
            source_words, source_heads: see `TreePositions`.
        """
        return self.encoder.encode(source, words=source_words, heads=source_heads)

    def alignment(self, source, target, source_words=None, source_heads=None):
        """What each target token attends to in the source, `[B, T, S]`; see
        `StepwiseDecoder.alignment`."""
        memory = self.encoder(
            tf.convert_to_tensor(source), training=False, words=source_words, heads=source_heads
        )
        return self.decoder.alignment(self._decoder_weights(target, memory))

    def attention_weights(self, source, target, source_words=None, source_heads=None):
        """All attention weights of a pass: `[B, N, H, ·, ·]` for N blocks, by name.

        "encoder" `[…, S, S]`, "decoder" `[…, T, T]` and "cross" `[…, T, S]`.
        """
        states, encoder = self.encoder(
            tf.convert_to_tensor(source),
            training=False,
            return_attention_scores=True,
            words=source_words,
            heads=source_heads,
        )
        decoder = self._decoder_weights(target, states)
        return {
            "encoder": tf.stack(encoder, axis=1),
            "decoder": tf.stack([weights["self"] for weights in decoder], axis=1),
            "cross": tf.stack([weights["cross"] for weights in decoder], axis=1),
        }
