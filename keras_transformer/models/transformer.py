"""The Transformer: an encoder, and a decoder that attends to what it made."""

import dataclasses

import keras
import tensorflow as tf

from keras_transformer.checks import require_choice, require_positive_integer
from keras_transformer.layers import TokenEmbedding
from keras_transformer.models.config import ModelConfig
from keras_transformer.models.configured_model import ConfiguredModel
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.encoder import Encoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """Settings of a `Transformer`; by default those of the paper's base model.

    Attributes: those of `ModelConfig`, and
        target_vocabulary_size: number of target tokens, where they are not the source's.
        encoder_layers, decoder_layers: numbers of blocks.
        cross_attention, cross_attention_options: mechanism from decoder to encoder.
        share_embeddings: which tables are one: "all" (source, target and output), "target" (target
            and output) or "none".
    """

    target_vocabulary_size: int | None = None
    encoder_layers: int = 6
    decoder_layers: int = 6
    cross_attention: str = "scaled_dot_product"
    cross_attention_options: dict = dataclasses.field(default_factory=dict)
    share_embeddings: str = "all"
    order: str = "post"

    depth_fields = ("encoder_layers", "decoder_layers")

    def __post_init__(self):
        super().__post_init__()
        self.mechanism("cross_attention")
        require_choice("share_embeddings", self.share_embeddings, ("all", "target", "none"))
        if self.target_vocabulary_size is not None:
            require_positive_integer("target_vocabulary_size", self.target_vocabulary_size)
            is_other = self.target_vocabulary_size != self.vocabulary_size
            if self.share_embeddings == "all" and is_other:
                raise ValueError(
                    "One table for source and target needs one vocabulary; got vocabulary_size="
                    f"{self.vocabulary_size} and target_vocabulary_size="
                    f"{self.target_vocabulary_size}. Use share_embeddings='target'."
                )


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(ConfiguredModel):
    """Encoder and decoder (Vaswani et al. 2017, "Attention Is All You Need").

    A functional model: inputs `{"source": [B, S], "target": [B, T]}`, integer ids padded with
    `padding_id`; outputs logits `[B, T, V]` of the token after each of `target`. For decoding it
    answers `encode`, `initial_state` and `step`, with the same layers.

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

        def embedding(name, vocabulary_size):
            return TokenEmbedding(
                vocabulary_size, config.width, config.padding_id, name=name, dtype=dtype
            )

        target_size = config.target_vocabulary_size or config.vocabulary_size
        source_table = target_table = output_table = embedding(
            "embedding" if config.share_embeddings == "all" else "source_embedding",
            config.vocabulary_size,
        )
        if config.share_embeddings != "all":
            target_table = output_table = embedding("target_embedding", target_size)
        if config.share_embeddings == "none":
            output_table = embedding("output_embedding", target_size)

        encoder = Encoder(config, source_table, config.encoder_layers, dtype=dtype)
        decoder = Decoder(
            config,
            target_table,
            output_table,
            config.decoder_layers,
            dtype=dtype,
            cross_attention=config.mechanism("cross_attention"),
        )
        inputs = {
            "source": keras.Input((None,), dtype="int32", name="source"),
            "target": keras.Input((None,), dtype="int32", name="target"),
        }
        logits = decoder(inputs["target"], encoder(inputs["source"]))
        super().__init__(config, dtype, inputs, logits, **kwargs)
        self.encoder, self.decoder = encoder, decoder

    def encode(self, source):
        """The `Memory` of source tokens `[B, S]`."""
        return self.encoder.encode(source)

    def initial_state(self, memory, max_length=None):
        """The state of the decoder before its first token.

        Args:
            memory: what `encode` gave.
            max_length: how many target tokens there will be at most, start token included; by
                default the config's.
        """
        return self.decoder.initial_state(tf.shape(memory.states)[0], max_length, memory)

    @property
    def position_limit(self):
        """How many target tokens the positions reach, or None if there is no end to them."""
        return self.decoder.position_limit

    def step(self, ids, state, return_attention=False):
        """Logits `[B, V]` after the next target tokens `[B]`, and the state after them.

        Also takes several tokens for each row, `[B, T]`, and gives `[B, T, V]`. With
        `return_attention`, what they attend to in the source stands between the two, see
        `Decoder.step`.
        """
        return self.decoder.step(ids, state, return_attention)

    def alignment(self, source, target):
        """What each target token attends to in the source, `[B, T, S]`; see `Decoder.step`."""
        _, weights = self.decoder(
            tf.convert_to_tensor(target),
            self.encoder(tf.convert_to_tensor(source), training=False),
            training=False,
            return_weights=True,
        )
        return self.decoder.alignment(weights)

    def attention_weights(self, source, target):
        """All attention weights of a pass: `[B, N, H, ·, ·]` for N blocks, by name.

        "encoder" `[…, S, S]`, "decoder" `[…, T, T]` and "cross" `[…, T, S]`.
        """
        states, encoder = self.encoder(tf.convert_to_tensor(source), False, return_weights=True)
        _, decoder = self.decoder(
            tf.convert_to_tensor(target), states, training=False, return_weights=True
        )
        return {
            "encoder": tf.stack(encoder, axis=1),
            "decoder": tf.stack([weights["self"] for weights in decoder], axis=1),
            "cross": tf.stack([weights["cross"] for weights in decoder], axis=1),
        }
