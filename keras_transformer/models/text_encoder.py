"""The text encoder: an encoder without a decoder, for vectors and classes."""

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer._utils.errors import UserError
from keras_transformer.layers import Pooling
from keras_transformer.models.base import ConfiguredModel, dtype_policy_of
from keras_transformer.models.config import BlockModelConfig
from keras_transformer.models.encoder import Encoder, EncoderOutput, SourceReader
from keras_transformer.models.heads import make_embedding


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(BlockModelConfig):
    """Settings of a `TextEncoder`, with the arguments of that class."""

    num_layers: int = 6
    pooling: str = "mean"
    num_classes: int | None = None

    depth_fields: ClassVar[tuple[str, ...]] = ("num_layers",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("pooling", self.pooling, ("mean", "max", "first", "none"))
        if self.num_classes is not None:
            require_positive_integer("num_classes", self.num_classes)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TextEncoder(ConfiguredModel):
    """An encoder with pooling and an optional classification head.

    Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers". A functional model
    with inputs `{"source": [B, S]}`, token ids that are padded with `padding_id`, and vectors
    `[B, M]` or, for C classes, logits `[B, C]` (without pooling, `[B, S, M]` or `[B, S, C]`).

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
        start_id: Integer. Token id that starts a text where a task needs one. Defaults to 2.
        end_id: Integer. Token id that ends every text. Defaults to 3.
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
        normalize_first: Boolean. Pre-norm (True) or post-norm (False). Defaults to True.
        attention_dropout: Float. Dropout rate of the attention weights. Defaults to 0.
        activation_dropout: Float. Dropout rate inside the feed-forward networks. Defaults to 0.
        use_bias: Boolean. Whether projections and dense layers have biases. Defaults to True.
        epsilon: Float. Added to the variance in normalizations. Defaults to 1e-6.
        num_layers: Integer. Number of blocks. Defaults to 6.
        pooling: String. "mean", "max" or "first", see `Pooling`; or "none", for a vector for each
            token. Defaults to "mean".
        num_classes: Integer. C, size of the classification head. Defaults to None, for vectors.
        dtype: Dtype policy of all layers, such as "mixed_bfloat16". Defaults to Keras' global one.
        name: String. Name of the model.

    Example:

    >>> model = TextEncoder.from_size("tiny", vocabulary_size=1000, num_classes=3)
    >>> model({"source": tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]])}).shape
    TensorShape([2, 3])
    """

    config_class = TextEncoderConfig

    def __init__(
        self,
        *,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        **settings: Any,
    ) -> None:
        config, dtype = TextEncoderConfig(**settings), dtype_policy_of(dtype)
        embedding = make_embedding(config, dtype)
        encoder = Encoder(
            config.num_layers,
            **config.stack_settings(config.encoder_field),
            dtype=dtype,
            name="encoder",
        )
        reader = SourceReader(embedding, encoder)
        inputs = {"source": keras.Input((None,), dtype="int32", name="source")}
        outputs = reader(inputs["source"])
        pooling = None
        if config.pooling != "none":
            pooling = Pooling(config.pooling, name="pooling", dtype=dtype)
            outputs = pooling(outputs)
        if config.num_classes is not None:
            # Logits in float32, as those of the other models.
            outputs = keras.layers.Dense(config.num_classes, dtype="float32", name="head")(outputs)
        super().__init__(config, dtype, inputs, outputs, name=name, trainable=trainable)
        self.reader: SourceReader = reader
        self.encoder: Encoder = encoder
        self.pooling: Pooling | None = pooling

    def encode(self, source: Any) -> EncoderOutput:
        """Returns the `EncoderOutput` of tokens `[B, S]`: a vector for each, before pooling."""
        return self.reader.encode(source)

    def vectors(self, source: Any) -> tf.Tensor:
        """Returns the pooled vectors `[B, M]` of tokens `[B, S]`, before any head."""
        if self.pooling is None:
            raise UserError("A TextEncoder with pooling='none' has no vector for a whole text.")
        return self.pooling(self.reader(tf.convert_to_tensor(source), training=False))

    def attention_weights(self, source: Any) -> dict[str, tf.Tensor]:
        """Returns all attention weights of a forward pass: `{"encoder": [B, N, H, S, S]}`."""
        source = tf.convert_to_tensor(source)
        _, scores = self.reader(source, training=False, return_attention_scores=True)
        return {"encoder": tf.stack(scores, axis=1)}
