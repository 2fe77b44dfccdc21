"""The Transformer: an encoder, and a decoder that attends to what it made."""

import dataclasses

import keras
import tensorflow as tf

from keras_transformer.checks import require_boolean
from keras_transformer.models.config import ModelConfig
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.embedding_tables import make_tables, require_shareable
from keras_transformer.models.encoder import Encoder
from keras_transformer.models.output_head import OutputHead, require_usable_output
from keras_transformer.models.source_model import SourceModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Settings of a `Transformer`; by default those of the paper's base model.

    Attributes: those of `ModelConfig`, and
        target_vocabulary_size: number of target tokens, where they are not the source's.
        encoder_layers, decoder_layers: numbers of blocks.
        decoder_attention, decoder_attention_options: mechanism of the decoder's self-attention,
            where it is not the encoder's `attention`: one that cannot hide the future, such as
            "linformer" or "big_bird", is for encoders only.
        cross_attention, cross_attention_options: mechanism from decoder to encoder.
        share_embeddings: which tables are one: "all" (source, target and output), "target" (target
            and output) or "none".
        copies: whether tokens of the source can be copied, see `PointerGenerator`; needs one
            vocabulary for both, as `share_embeddings="all"` does.
        coverage_weight: of the loss for attending to the same place again; 0 for none. Why coverage
            is no input of the attention here, as in `RecurrentSeq2Seq`, is told by `CoverageLoss`.
        reads_source_depths: whether each source token comes with its depth in a dependency tree, as
            a third input, "source_depths"; see `StructuralPositions`.
    """

    target_vocabulary_size: int | None = None
    encoder_layers: int = 6
    decoder_layers: int = 6
    decoder_attention: str | None = None
    decoder_attention_options: dict = dataclasses.field(default_factory=dict)
    cross_attention: str = "scaled_dot_product"
    cross_attention_options: dict = dataclasses.field(default_factory=dict)
    share_embeddings: str = "all"
    copies: bool = False
    coverage_weight: float = 0.0
    reads_source_depths: bool = False
    order: str = "post"

    depth_fields = ("encoder_layers", "decoder_layers")

    def __post_init__(self):
        super().__post_init__()
        if self.decoder_attention is None and self.decoder_attention_options:
            raise ValueError(
                "`decoder_attention_options` are those of `decoder_attention`, which is not given. "
                "Without it, the decoder has `attention` and `attention_options`."
            )
        self._require_usable_decoder()
        self.require_usable("cross_attention", is_cross=True)
        require_boolean("reads_source_depths", self.reads_source_depths)
        require_shareable(self)
        require_usable_output(self)

    @property
    def mechanism_fields(self):
        """The names of the fields that name a mechanism."""
        return tuple(dict.fromkeys(("attention", self.decoder_field, "cross_attention")))

    @property
    def decoder_field(self):
        """The field that names the mechanism of the decoder's self-attention."""
        return "attention" if self.decoder_attention is None else "decoder_attention"

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
    answers `encode`, `initial_state` and `step`, with the same layers. With `reads_source_depths`,
    inputs have `"source_depths": [B, S]` too.

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
            config.encoder_layers,
            dtype=dtype,
            reads_depths=config.reads_source_depths,
        )
        decoder = Decoder(
            config,
            tables.target,
            OutputHead(tables.output, dtype, config.copies, config.coverage_weight),
            config.decoder_layers,
            dtype=dtype,
            cross_attention=config.mechanism("cross_attention"),
        )
        further_inputs = ("source_depths",) if config.reads_source_depths else ()
        super().__init__(config, dtype, encoder, decoder, further_inputs, **kwargs)

    @staticmethod
    def lay(encoder, decoder, source, target, source_depths=None):
        return decoder(target, encoder(source, depths=source_depths), source=source)

    def encode(self, source, source_depths=None):
        """The `Memory` of source tokens `[B, S]`, and of their depths where the model reads them.

        A search knows the tokens alone: give it a `ModelWithDepths`.
        """
        depths = None if source_depths is None else tf.convert_to_tensor(source_depths)
        return self.encoder.encode(source, depths=depths)

    def alignment(self, source, target, source_depths=None):
        """What each target token attends to in the source, `[B, T, S]`; see
        `StepwiseDecoder.alignment`."""
        memory = self.encoder(tf.convert_to_tensor(source), training=False, depths=source_depths)
        return self.decoder.alignment(self._decoder_weights(target, memory))

    def attention_weights(self, source, target, source_depths=None):
        """All attention weights of a pass: `[B, N, H, ·, ·]` for N blocks, by name.

        "encoder" `[…, S, S]`, "decoder" `[…, T, T]` and "cross" `[…, T, S]`.
        """
        states, encoder = self.encoder(
            tf.convert_to_tensor(source), False, return_weights=True, depths=source_depths
        )
        decoder = self._decoder_weights(target, states)
        return {
            "encoder": tf.stack(encoder, axis=1),
            "decoder": tf.stack([weights["self"] for weights in decoder], axis=1),
            "cross": tf.stack([weights["cross"] for weights in decoder], axis=1),
        }
