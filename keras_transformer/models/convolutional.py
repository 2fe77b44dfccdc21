"""Convolutional sequence-to-sequence models."""

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import AttentionMechanism
from keras_transformer.layers.convolution import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    EncoderKeysAndValues,
)
from keras_transformer.layers.multi_head_attention import as_tuple, with_extras
from keras_transformer.layers.positions import POSITION_ENCODINGS
from keras_transformer.layers.residual import Dropout
from keras_transformer.models.base import Seq2SeqModel
from keras_transformer.models.config import Seq2SeqConfig
from keras_transformer.models.encoder import EncoderOutput, Stack


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalEncoder(Stack):
    """A stack of convolutional blocks over embedded tokens.

    The outputs of n blocks depend on windows of n·(kernel_size - 1) + 1 tokens.

    Args:
        num_layers: Integer. Number of blocks.
        kernel_size: Integer. Number of tokens in a window. Defaults to 3.
        num_decoder_layers: Integer. Number of decoder layers that attend to the outputs, see
            `EncoderKeysAndValues`. Defaults to 1.
        positions: String. Name of the position encoding, or None. Defaults to "learned".
        max_length: Integer. Number of positions of an encoding that has a limit. Defaults to 1024.
        dropout: Float. Dropout rate of the embeddings and of each block's inputs. Defaults to 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, S, M]`, with an implicit mask.
        training: Boolean. Whether to apply dropout.

    Returns:
        Keys, with the mask of `inputs`, and values, each `[B, S, M]`.

    Example:

    >>> keys, values = ConvolutionalEncoder(num_layers=2)(keras.Input((None, 64)))
    >>> keys.shape, values.shape
    ((None, None, 64), (None, None, 64))
    """

    def __init__(
        self,
        num_layers: int,
        kernel_size: int = 3,
        num_decoder_layers: int = 1,
        positions: str | None = "learned",
        max_length: int = 1024,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, positions, max_length, dropout, **kwargs)
        self.kernel_size: int = kernel_size
        self.num_decoder_layers: int = num_decoder_layers
        self.blocks: list[ConvolutionalEncoderBlock] = [
            ConvolutionalEncoderBlock(
                kernel_size, dropout, name=f"block_{i}", dtype=self.dtype_policy
            )
            for i in range(num_layers)
        ]
        self.keys_and_values: EncoderKeysAndValues = EncoderKeysAndValues(
            num_decoder_layers, name="keys_and_values", dtype=self.dtype_policy
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        states = embedded = self.dropout_layer(self.add_positions(inputs), training=training)
        for block in self.blocks:
            states = block(states, training=training)
        return self.keys_and_values(states, embedded, training=training)

    def compute_output_spec(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return tuple(keras.KerasTensor(inputs.shape, dtype=self.compute_dtype) for _ in range(2))


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalDecoder(Stack):
    """A stack of causal convolutional blocks, each with attention to the encoder outputs.

    Args:
        num_layers: Integer. Number of blocks.
        kernel_size: Integer. Number of tokens in a window. Defaults to 3.
        attention: String, `AttentionMechanism` or serialized mechanism. Defaults to
            "scaled_dot_product".
        positions: String. Name of the position encoding, or None. Defaults to "learned".
        max_length: Integer. Number of positions of an encoding that has a limit. Defaults to 1024.
        dropout: Float. Dropout rate of the embeddings, of each block's inputs and of the outputs.
            Defaults to 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, T, M]`; with a `state`, only the next ones.
        encoder_outputs: Keys, with an implicit mask, and values, each `[B, S, M]`.
        state: Dictionary of the model's decoder state, see `initial_state`.
        return_attention_scores: Boolean. Whether to return as well a list of each block's attention
            weights, `{"cross": [B, 1, T, S]}`. Defaults to False.
        training: Boolean. Whether to apply dropout.

    Returns:
        Hidden states `[B, T, M]`, or a tuple of them, the attention weights and the new "layers" of
        the state, as far as requested.

    Example:

    >>> x, keys, values = (keras.Input((None, 64)) for _ in range(3))
    >>> ConvolutionalDecoder(num_layers=2)(x, (keys, values)).shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_layers: int,
        kernel_size: int = 3,
        attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        positions: str | None = "learned",
        max_length: int = 1024,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, positions, max_length, dropout, **kwargs)
        self.kernel_size: int = kernel_size
        self.blocks: list[ConvolutionalDecoderBlock] = [
            ConvolutionalDecoderBlock(
                kernel_size, attention, dropout, name=f"block_{i}", dtype=self.dtype_policy
            )
            for i in range(num_layers)
        ]
        self.output_dropout: Dropout = Dropout(
            dropout, name="output_dropout", dtype=self.dtype_policy
        )

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Any = None) -> None:
        self._build_blocks(inputs_shape, inputs_shape, *encoder_outputs_shape)

    def call(
        self,
        inputs: Any,
        encoder_outputs: Any = None,
        state: dict[str, Any] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        position, step_inputs = 0, {}
        caches: list[Any] = [None] * self.num_layers
        if state is None:
            key, value = encoder_outputs
        else:
            source, position, caches = state["memory"], state["position"], state["layers"]
            key, value = source["states"], source["values"]
            step_inputs = {"key_mask": source["mask"], "offset": position}
        states = embedded = self.dropout_layer(
            self.add_positions(inputs, offset=position), training=training
        )
        scores, new_caches = [], []
        for block, cache in zip(self.blocks, caches, strict=True):
            results = block(
                states,
                embedded,
                key,
                value,
                cache=cache,
                return_attention_scores=return_attention_scores,
                training=training,
                **step_inputs,
            )
            states, *extras = as_tuple(results)
            if return_attention_scores:
                scores.append({"cross": ops.expand_dims(extras.pop(0), 1)})
            new_caches += extras
        return with_extras(
            self.output_dropout(states, training=training),
            scores if return_attention_scores else None,
            None if state is None else new_caches,
        )

    def initial_state(
        self,
        batch_size: int | tf.Tensor,
        max_length: int | tf.Tensor | None,
        encoder_output: EncoderOutput,
    ) -> dict[str, Any]:
        """Returns the decoder's part of a state before the first token.

        "layers" are the last inputs of each block, `[B, kernel_size - 1, M]`; "memory" are the
        keys, values and mask of the source. For the arguments see `Decoder.initial_state`.
        """
        return {
            "layers": [block.initial_cache(batch_size) for block in self.blocks],
            "memory": {n: getattr(encoder_output, n) for n in ("states", "values", "mask")},
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": self.blocks[0].get_config()["attention"]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvolutionalSeq2SeqConfig(Seq2SeqConfig):
    """Settings of a `ConvolutionalSeq2Seq`.

    Args:
        attention: String. Mechanism of the attention to the source, a name in
            `keras_transformer.layers.MECHANISMS`; it has one head and projects only the queries.
        kernel_size: Integer. Number of tokens in a window; the default is the paper's.
        positions: String. Position encoding that is added to the embeddings, a name in
            `keras_transformer.layers.POSITION_ENCODINGS`, or "none".
    """

    kernel_size: int = 3
    positions: str = "learned"

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        # The hidden_dim is that of the Transformer of the same name.
        "tiny": {"depth": 4, "hidden_dim": 128},
        # Gehring et al. 2017, section 5.6, for summaries
        "small": {"depth": 6, "hidden_dim": 256},
        # Gehring et al. 2017, section 5.1, for WMT'16 English to Romanian
        "base": {"depth": 20, "hidden_dim": 512},
        # As deep as their model for WMT'14 English to German, with hidden sizes from 512 to 2048.
        "big": {"depth": 15, "hidden_dim": 768},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive_integer("kernel_size", self.kernel_size)
        require_choice("positions", self.positions, (*POSITION_ENCODINGS, "none"))
        self.require_usable("attention", cache=True, cross=True)

    @property
    def position_scheme(self) -> str | None:
        return None if self.positions == "none" else self.positions


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalSeq2Seq(Seq2SeqModel):
    """Convolutions in encoder and decoder, with attention to the source in each decoder block.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning". The outputs of n blocks with
    a `kernel_size` of k depend on windows of n·(k - 1) + 1 tokens; only the attention to the source
    reaches further. Inputs, outputs and decoding are those of `Transformer`.

    Args:
        **settings: The fields of `ConvolutionalSeq2SeqConfig`, `dtype` and `name`.

    Example:

    >>> model = ConvolutionalSeq2Seq.from_size("tiny", vocabulary_size=1000, kernel_size=5)
    >>> model({"source": tf.constant([[5, 6, 7, 3]]), "target": tf.constant([[2, 8]])}).shape
    TensorShape([1, 2, 1000])
    """

    config_class = ConvolutionalSeq2SeqConfig
    encoder_class = ConvolutionalEncoder
    decoder_class = ConvolutionalDecoder
