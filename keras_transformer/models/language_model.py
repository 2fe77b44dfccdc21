"""The decoder alone: text that goes on."""

import dataclasses

import keras
import tensorflow as tf

from keras_transformer.layers import TokenEmbedding
from keras_transformer.models.base import ConfiguredModel
from keras_transformer.models.config import ModelConfig
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.heads import OutputHead


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(ModelConfig):
    """Settings of a `LanguageModel`.

    Attributes: those of `ModelConfig`, and
        num_layers: number of blocks.
        is_packed: whether rows hold several documents, told apart by a second input, "segments".
    """

    num_layers: int = 6
    is_packed: bool = False

    depth_fields = ("num_layers",)

    def __post_init__(self):
        super().__post_init__()
        self.require_usable("attention", is_causal=True)
        if self.is_packed:  # who may see whom differs from token to token
            self.require_usable("attention", is_packed=True, has_query_mask=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LanguageModel(ConfiguredModel):
    """A decoder without a memory (Radford et al. 2018, "Improving Language Understanding …").

    A functional model: inputs `{"target": [B, T]}`, integer ids padded with `padding_id`; outputs
    logits `[B, T, V]` of the token after each. With `is_packed`, inputs have `"segments": [B, T]`
    too, and attention and positions stay within each segment (see `PackedSegments`). For decoding
    it answers `initial_state` and `step`, with the same layers.

    Args:
        config: a `LanguageModelConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = LanguageModel.from_preset("tiny", vocabulary_size=1000, attention="rotary")
    >>> state = model.initial_state(batch_size=1, max_length=20)
    >>> logits, state = model.step([[2, 5, 6]], state)
    >>> logits.shape
    TensorShape([1, 3, 1000])
    """

    config_class = LanguageModelConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        embedding = TokenEmbedding(
            config.vocabulary_size,
            config.hidden_dim,
            config.padding_id,
            name="embedding",
            dtype=dtype,
        )
        head = OutputHead(embedding, dtype)
        decoder = Decoder(config, embedding, head, config.num_layers, dtype=dtype)
        inputs = {"target": keras.Input((None,), dtype="int32", name="target")}
        if config.is_packed:
            inputs["segments"] = keras.Input((None,), dtype="int32", name="segments")
        logits = decoder(inputs["target"], segments=inputs.get("segments"))
        super().__init__(config, dtype, inputs, logits, **kwargs)
        self.decoder = decoder

    def unpacked(self):
        """This model, or, of a packed one, its twin for rows of one document, with equal weights.

        Packing is for training; texts that go on come one by one.
        """
        if not self.config.is_packed:
            return self
        config = dataclasses.replace(self.config, is_packed=False)
        twin = LanguageModel(config, dtype=self.dtype_policy, name=self.name)
        twin.set_weights(self.get_weights())
        return twin

    def initial_state(self, batch_size, max_length=None):
        """The state before the first token; see `Decoder.initial_state`."""
        return self.decoder.initial_state(batch_size, max_length)

    @property
    def position_limit(self):
        """How many tokens the positions reach, or None if there is no end to them."""
        return self.decoder.position_limit

    def step(self, ids, state):
        """Logits `[B, V]` after the next tokens `[B]`, and the state after them.

        Also takes several tokens for each row, `[B, T]`, as of a prompt, and gives `[B, T, V]`.
        """
        return self.decoder.step(ids, state)

    def states(self, target):
        """The vectors `[B, T, M]` of tokens `[B, T]` that the logits are made from."""
        return self.decoder(tf.convert_to_tensor(target), training=False, return_states=True)

    def alignment(self, target):
        """What each token attends to among those before it, `[B, T, T]`: the mean over the heads
        of the last block but one."""
        weights = self.attention_weights(target)["decoder"][:, -2:][:, 0]  # [B, H, T, T]
        return tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)

    def attention_weights(self, target, segments=None):
        """All attention weights of a pass: `{"decoder": [B, N, H, T, T]}` for N blocks.

        Args:
            target: tokens `[B, T]`.
            segments: for a packed model, the numbers `[B, T]` of the documents.
        """
        segments = None if segments is None else tf.convert_to_tensor(segments)
        _, weights = self.decoder(
            tf.convert_to_tensor(target),
            segments=segments,
            training=False,
            return_attention_scores=True,
        )
        return {"decoder": tf.stack([block["self"] for block in weights], axis=1)}
