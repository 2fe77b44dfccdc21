"""The language model: a decoder without an encoder."""

import dataclasses
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_boolean, require_choice
from keras_transformer.layers import PackedSegments
from keras_transformer.models.base import GenerativeModel, ModelGraph, make_embedding
from keras_transformer.models.config import BlockModelConfig
from keras_transformer.models.decoder import Decoder, TokenPredictor


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(BlockModelConfig):
    """Settings of a `LanguageModel`.

    Args:
        num_layers: Integer. Number of blocks.
        share_embeddings: String. "all", if the embedding table is also that of the output layer, or
            "none".
        output_bias: Boolean. Whether the logits have a bias for each token.
        is_packed: Boolean. Whether rows hold several documents, distinguished by a second input,
            "segments".
    """

    num_layers: int = 6
    share_embeddings: str = "all"
    output_bias: bool = False
    is_packed: bool = False

    depth_fields: ClassVar[tuple[str, ...]] = ("num_layers",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("share_embeddings", self.share_embeddings, ("all", "none"))
        require_boolean("output_bias", self.output_bias)
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
        **settings: The fields of `LanguageModelConfig`, `dtype` and `name`.

    Example:

    >>> model = LanguageModel.from_size("tiny", vocabulary_size=1000, attention="rotary")
    >>> state = model.initial_state(batch_size=1, max_length=20)
    >>> logits, state = model.step([[2, 5, 6]], state)
    >>> logits.shape
    TensorShape([1, 3, 1000])
    """

    config_class = LanguageModelConfig
    #: Separates the documents of a row, if the model is packed.
    packing: PackedSegments | None

    @classmethod
    def build_graph(cls, config: LanguageModelConfig, dtype: keras.DTypePolicy) -> ModelGraph:
        is_shared, bias = config.share_embeddings == "all", config.output_bias
        embedding = output = make_embedding(config, dtype, output_bias=is_shared and bias)
        if not is_shared:
            output = make_embedding(config, dtype, "output_embedding", output_bias=bias)
        decoder = Decoder(
            config.num_layers,
            **config.stack_settings(config.decoder_field),
            dtype=dtype,
            name="decoder",
        )
        predictor = TokenPredictor(embedding, decoder, output, config.special_ids)
        inputs = {"target": keras.Input((None,), dtype="int32", name="target")}
        packing = None
        if config.is_packed:
            inputs["segments"] = keras.Input((None,), dtype="int32", name="segments")
            packing = PackedSegments(name="packing", dtype=dtype)
        logits = predictor(inputs["target"], **_packed(packing, inputs.get("segments")))
        return ModelGraph(inputs, logits, {"predictor": predictor, "packing": packing})

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
            max_length: Integer, to reserve space for that many tokens; or scalar tensor, for caches
                that grow, except under XLA. Defaults to that of the config.
        """
        return self._make_state(batch_size, max_length)

    def states(self, target: Any) -> tf.Tensor:
        """Returns the hidden states `[B, T, M]` that the logits of tokens `[B, T]` come from."""
        target = tf.convert_to_tensor(target)
        return self.predictor(target, training=False, return_hidden_states=True)

    def alignment(self, target: Any) -> tf.Tensor:
        """Returns the attention of each of tokens `[B, T]` to itself and earlier ones, `[B, T, T]`.

        The result is the mean over the heads of the penultimate block.
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
    """Returns the call arguments of the predictor that separate packed documents."""
    if packing is None or segments is None:
        return {}
    attention_mask, positions = packing(segments)
    return {"attention_mask": attention_mask, "positions": positions, "segments": segments}
