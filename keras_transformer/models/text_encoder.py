"""The encoder alone: text to a vector, or to a class."""

import dataclasses

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer.layers import Pooling, TokenEmbedding
from keras_transformer.models.base import ConfiguredModel
from keras_transformer.models.config import ModelConfig
from keras_transformer.models.encoder import Encoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(ModelConfig):
    """Settings of a `TextEncoder`.

    Attributes: those of `ModelConfig`, and
        num_layers: number of blocks.
        pooling: "mean", "max" or "first", see `Pooling`; or "none", which leaves a vector for each
            token.
        num_classes: size of the classification head, or None for vectors.
    """

    num_layers: int = 6
    pooling: str = "mean"
    num_classes: int | None = None

    depth_fields = ("num_layers",)

    def __post_init__(self):
        super().__post_init__()
        require_choice("pooling", self.pooling, ("mean", "max", "first", "none"))
        if self.num_classes is not None:
            require_positive_integer("num_classes", self.num_classes)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TextEncoder(ConfiguredModel):
    """An encoder with pooling and, if asked for, a classification head.

    Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers". A functional model:
    inputs `{"source": [B, S]}`, integer ids padded with `padding_id`; outputs vectors `[B, M]`, or
    logits `[B, C]` for C classes (without pooling, `[B, S, M]` or `[B, S, C]`).

    Args:
        config: a `TextEncoderConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = TextEncoder.from_preset("tiny", vocabulary_size=1000, num_classes=3)
    >>> model({"source": tf.constant([[5, 6, 7, 3], [8, 3, 0, 0]])}).shape
    TensorShape([2, 3])
    """

    config_class = TextEncoderConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        embedding = TokenEmbedding(
            config.vocabulary_size,
            config.hidden_dim,
            config.padding_id,
            name="embedding",
            dtype=dtype,
        )
        encoder = Encoder(config, embedding, config.num_layers, dtype=dtype)
        inputs = {"source": keras.Input((None,), dtype="int32", name="source")}
        outputs = encoder(inputs["source"])
        pooling = None
        if config.pooling != "none":
            pooling = Pooling(config.pooling, name="pooling", dtype=dtype)
            outputs = pooling(outputs)
        if config.num_classes is not None:
            # Logits in full precision, as those of the other models.
            outputs = keras.layers.Dense(config.num_classes, dtype="float32", name="head")(outputs)
        super().__init__(config, dtype, inputs, outputs, **kwargs)
        self.encoder, self.pooling = encoder, pooling

    def encode(self, source):
        """The `Memory` of tokens `[B, S]`: a vector for each, before pooling."""
        return self.encoder.encode(source)

    def vectors(self, source):
        """The pooled vectors `[B, M]` of tokens `[B, S]`, before any head."""
        if self.pooling is None:
            raise ValueError("A TextEncoder with pooling='none' has no vector for a whole text.")
        return self.pooling(self.encoder(tf.convert_to_tensor(source), training=False))

    def attention_weights(self, source):
        """All attention weights of a pass: `{"encoder": [B, N, H, S, S]}` for N blocks."""
        _, weights = self.encoder(tf.convert_to_tensor(source), False, return_attention_scores=True)
        return {"encoder": tf.stack(weights, axis=1)}
