"""The text encoder: an encoder without a decoder, for vectors and classes."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_integer,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.layers import Pooling, TokenTypeEmbedding
from keras_transformer.layers.feed_forwards.feed_forward import (
    get_activation,
    require_plain_activation,
)
from keras_transformer.models.base import ConfiguredModel, ModelGraph, make_embedding
from keras_transformer.models.config import BlockModelConfig
from keras_transformer.models.encoder import Encoder, EncoderOutput, SourceReader


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(BlockModelConfig):
    """Settings of a `TextEncoder`.

    Args:
        num_layers: Integer. Number of blocks.
        pooling: String. "mean", "max" or "first", see `Pooling`; or "none", for a vector for each
            token.
        normalize_vectors: Boolean. Whether pooled vectors are scaled to length 1.
        num_token_types: Integer. Number of types of tokens, see `TokenTypeEmbedding`: 2 for pairs
            of texts, each of which ends with `end_id`; 0 for no such embedding.
        num_classes: Integer. C, size of the classification head. Defaults to None, for vectors.
        head_activation: String or function. Activation of a dense layer of M units before the
            layer of classes, "tanh" as in BERT; or None for no such layer.
    """

    num_layers: int = 6
    pooling: str = "mean"
    normalize_vectors: bool = False
    num_token_types: int = 0
    num_classes: int | None = None
    head_activation: str | Callable[..., Any] | None = None

    depth_fields: ClassVar[tuple[str, ...]] = ("num_layers",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("pooling", self.pooling, ("mean", "max", "first", "none"))
        require_boolean("normalize_vectors", self.normalize_vectors)
        if self.normalize_vectors and self.pooling == "none":
            expected = "'mean', 'max' or 'first' with `normalize_vectors`"
            raise ArgumentError("pooling", expected, self.pooling)
        require_integer("num_token_types", self.num_token_types, minimum=0)
        if self.num_classes is not None:
            require_positive_integer("num_classes", self.num_classes)
        if self.head_activation is not None:
            require_plain_activation("head_activation", self.head_activation)
            if self.num_classes is None:
                expected = "None without `num_classes`"
                raise ArgumentError("head_activation", expected, self.head_activation)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TextEncoder(ConfiguredModel):
    """An encoder with pooling and an optional classification head.

    Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers". A functional model
    with inputs `{"source": [B, S]}`, token ids that are padded with `padding_id`, and vectors
    `[B, M]` or, for C classes, logits `[B, C]` (without pooling, `[B, S, M]` or `[B, S, C]`).

    Args:
        **settings: The fields of `TextEncoderConfig`, `dtype` and `name`.

    Example:

    >>> model = TextEncoder.from_size("tiny", vocabulary_size=1000, num_classes=3)
    >>> model({"source": tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]])}).shape
    TensorShape([2, 3])
    """

    config_class = TextEncoderConfig
    reader: SourceReader
    encoder: Encoder
    pooling: Pooling | None

    @classmethod
    def build_graph(cls, config: TextEncoderConfig, dtype: keras.DTypePolicy) -> ModelGraph:
        embedding = make_embedding(config, dtype)
        encoder = Encoder(
            config.num_layers,
            **config.stack_settings(config.encoder_field),
            dtype=dtype,
            name="encoder",
        )
        token_types = None
        if config.num_token_types:
            token_types = TokenTypeEmbedding(
                config.num_token_types, config.end_id, name="token_types", dtype=dtype
            )
        reader = SourceReader(embedding, encoder, token_types=token_types)
        inputs = {"source": keras.Input((None,), dtype="int32", name="source")}
        outputs = reader(inputs["source"])
        pooling = None
        if config.pooling != "none":
            normalize = config.normalize_vectors
            pooling = Pooling(config.pooling, normalize, name="pooling", dtype=dtype)
            outputs = pooling(outputs)
        if config.num_classes is not None:
            if config.head_activation is not None:
                settings = {"dtype": dtype, "name": "pooler"}
                activation = get_activation(config.head_activation)
                outputs = keras.layers.Dense(config.hidden_dim, activation, **settings)(outputs)
            # Logits in float32, as those of the other models.
            outputs = keras.layers.Dense(config.num_classes, dtype="float32", name="head")(outputs)
        attributes = {"reader": reader, "encoder": encoder, "pooling": pooling}
        return ModelGraph(inputs, outputs, attributes)

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
