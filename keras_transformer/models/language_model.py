"""The language model: a decoder without an encoder."""

import dataclasses
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from keras_transformer.layers import PackedSegments
from keras_transformer.models.base import GenerativeModel, dtype_policy_of
from keras_transformer.models.config import BlockModelConfig
from keras_transformer.models.decoder import Decoder
from keras_transformer.models.heads import OutputHead, TokenPredictor, make_embedding


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(BlockModelConfig):
    """Settings of a `LanguageModel`, with the arguments of that class."""

    num_layers: int = 6
    is_packed: bool = False

    depth_fields: ClassVar[tuple[str, ...]] = ("num_layers",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_usable("attention", causal=True)
        if self.is_packed:  # the documents differ from token to token, and so does the mask
            self.require_usable("attention", packing=True, query_masks=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LanguageModel(GenerativeModel):
    """A decoder without an encoder, which continues texts.

    Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training". A functional
    model with inputs `{"target": [B, T]}`, token ids that are padded with `padding_id`, and logits
    `[B, T, V]` of the token after each. With `is_packed`, inputs have `"segments": [B, T]` as well,
    and attention and positions stay within each segment, see `PackedSegments`. For decoding it has
    `initial_state` and `step`, which use the same layers; `generate` searches.

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
        is_packed: Boolean. Whether rows hold several documents, told apart by a second input,
            "segments". Defaults to False.
        dtype: Dtype policy of all layers, such as "mixed_bfloat16". Defaults to Keras' global one.
        name: String. Name of the model.

    Example:

    >>> model = LanguageModel.from_size("tiny", vocabulary_size=1000, attention="rotary")
    >>> state = model.initial_state(batch_size=1, max_length=20)
    >>> logits, state = model.step([[2, 5, 6]], state)
    >>> logits.shape
    TensorShape([1, 3, 1000])
    """

    config_class = LanguageModelConfig

    def __init__(
        self,
        *,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        **settings: Any,
    ) -> None:
        config, dtype = LanguageModelConfig(**settings), dtype_policy_of(dtype)
        embedding = make_embedding(config, dtype)
        head = OutputHead(embedding, dtype)
        decoder = Decoder(
            config.num_layers,
            **config.stack_settings(config.decoder_field),
            dtype=dtype,
            name="decoder",
        )
        predictor = TokenPredictor(embedding, decoder, head, config.special_ids)
        inputs = {"target": keras.Input((None,), dtype="int32", name="target")}
        packing = None
        if config.is_packed:
            inputs["segments"] = keras.Input((None,), dtype="int32", name="segments")
            packing = PackedSegments(name="packing", dtype=dtype)
        logits = predictor(inputs["target"], **_packed(packing, inputs.get("segments")))
        super().__init__(config, dtype, inputs, logits, predictor, name=name, trainable=trainable)
        self.packing: PackedSegments | None = packing

    def unpacked(self) -> Self:
        """Returns this model or, of a packed one, a copy for rows of one document.

        The copy has equal weights. Packing is for training; texts are continued one by one.
        """
        if self.packing is None:
            return self
        config = dataclasses.replace(self.config, is_packed=False)
        copy = type(self).from_settings(config, dtype=self.dtype_policy, name=self.name)
        copy.set_weights(self.get_weights())
        return copy

    def initial_state(
        self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor | None = None
    ) -> dict[str, Any]:
        """Returns the state before the first token; see `Seq2SeqModel.initial_state`.

        Args:
            batch_size: Integer or scalar tensor. B.
            max_length: Integer, to reserve space for so many tokens; or scalar tensor, for caches
                that grow, except under XLA. Defaults to the config's.
        """
        return self._make_state(batch_size, max_length)

    def states(self, target: Any) -> tf.Tensor:
        """Returns the hidden states `[B, T, M]` that the logits of tokens `[B, T]` come from."""
        target = tf.convert_to_tensor(target)
        return self.predictor(target, training=False, return_hidden_states=True)

    def alignment(self, target: Any) -> tf.Tensor:
        """Returns the attention of each token to itself and earlier ones, `[B, T, T]`.

        It is the mean over the heads of the last block but one.

        Args:
            target: Tokens `[B, T]`.
        """
        weights = self.attention_weights(target)["decoder"][:, -2:][:, 0]  # [B, H, T, T]
        return tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)

    def attention_weights(self, target: Any, segments: Any = None) -> dict[str, tf.Tensor]:
        """Returns all attention weights of a forward pass: `{"decoder": [B, N, H, T, T]}`.

        Args:
            target: Tokens `[B, T]`.
            segments: For a packed model, the numbers `[B, T]` of the documents.
        """
        segments = None if segments is None else tf.convert_to_tensor(segments)
        _, scores = self.predictor(
            tf.convert_to_tensor(target),
            training=False,
            return_attention_scores=True,
            **_packed(self.packing, segments),
        )
        return {"decoder": tf.stack([block["self"] for block in scores], axis=1)}


def _packed(packing: PackedSegments | None, segments: Any) -> dict[str, Any]:
    """Returns the call arguments of the predictor that keep packed documents apart."""
    if packing is None or segments is None:
        return {}
    attention_mask, positions = packing(segments)
    return {"attention_mask": attention_mask, "positions": positions, "segments": segments}
