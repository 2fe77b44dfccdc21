"""Recurrent sequence-to-sequence models."""

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_even,
)
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import AttentionMechanism
from keras_transformer.layers.attention_recurrence import AttentionRNN
from keras_transformer.layers.multi_head_attention import as_tuple
from keras_transformer.layers.recurrence import CELLS, BidirectionalRNN
from keras_transformer.layers.residual import Dropout
from keras_transformer.models.base import Seq2SeqModel
from keras_transformer.models.config import Seq2SeqConfig
from keras_transformer.models.encoder import EncoderOutput, Stack


class RecurrentStack(Stack):
    """Base of `RecurrentEncoder` and `RecurrentDecoder`, which need no position encoding.

    Args: those of `RecurrentEncoder`.
    """

    def __init__(
        self, num_layers: int, hidden_dim: int, cell: str, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(num_layers, None, 1, dropout, **kwargs)
        self.hidden_dim: int = hidden_dim
        self.cell: str = cell

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in ("positions", "positions_options", "max_length"):
            del config[name]
        return config


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentEncoder(RecurrentStack):
    """A stack of bidirectional recurrent layers over embedded tokens, each with dropout.

    Args:
        num_layers: Integer. Number of layers.
        hidden_dim: Integer. M, size of inputs and outputs; half of it for each direction.
        cell: String. "lstm" or "gru". Defaults to "lstm".
        dropout: Float. Dropout rate of the inputs and of each layer's outputs. Defaults to 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, S, M]`, with an implicit mask.
        training: Boolean. Whether to apply dropout.

    Returns:
        Hidden states `[B, S, M]`.

    Example:

    >>> x = keras.Input((None, 64))
    >>> keras.Model(x, RecurrentEncoder(num_layers=2, hidden_dim=64)(x)).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_layers: int,
        hidden_dim: int,
        cell: str = "lstm",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, hidden_dim, cell, dropout, **kwargs)
        self.blocks: list[BidirectionalRNN] = [
            BidirectionalRNN(hidden_dim, cell, name=f"block_{i}", dtype=self.dtype_policy)
            for i in range(num_layers)
        ]
        self.dropout_layers: list[Dropout] = [
            Dropout(dropout, name=f"dropout_{i}", dtype=self.dtype_policy)
            for i in range(num_layers)
        ]

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        states = self.dropout_layer(inputs, training=training)
        for rnn, dropout_layer in zip(self.blocks, self.dropout_layers, strict=True):
            states = dropout_layer(rnn(states), training=training)
        return states


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentDecoder(RecurrentStack):
    """Recurrent layers with attention to encoder outputs, over embedded tokens.

    Args:
        num_layers: Integer. Number of cells.
        hidden_dim: Integer. M, size of inputs and outputs.
        cell: String. "lstm" or "gru". Defaults to "lstm".
        attention: String, `AttentionMechanism` or serialized mechanism. Defaults to
            "scaled_dot_product".
        dropout: Float. Dropout rate of the inputs and of each layer's outputs. Defaults to 0.
        coverage_attention: Boolean. Whether the attention reads the sum of earlier attention
            weights, see `AttentionRNN`. Defaults to False.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, T, M]`; with a `state`, only the next ones.
        encoder_outputs: `[B, S, M]`, with an implicit mask.
        state: Dictionary of the model's decoder state, see `initial_state`.
        return_attention_scores: Boolean. Whether to return as well a list with the attention
            weights of the one layer that attends, `{"cross": [B, 1, T, S]}`. Defaults to False.
        training: Boolean. Whether to apply dropout.

    Returns:
        Hidden states `[B, T, M]`, or a tuple of them, the attention weights and the new "layers" of
        the state, as far as requested.

    Example:

    >>> x, encoder_outputs = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = RecurrentDecoder(num_layers=2, hidden_dim=64)(x, encoder_outputs)
    >>> keras.Model([x, encoder_outputs], y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_layers: int,
        hidden_dim: int,
        cell: str = "lstm",
        attention: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        dropout: float = 0.0,
        coverage_attention: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, hidden_dim, cell, dropout, **kwargs)
        self.coverage_attention: bool = coverage_attention
        self.rnn: AttentionRNN = AttentionRNN(
            hidden_dim,
            num_layers=num_layers,
            cell=cell,
            attention=attention,
            dropout=dropout,
            coverage_attention=coverage_attention,
            name="rnn",
            dtype=self.dtype_policy,
        )

    @property
    def blocks(self) -> list[AttentionRNN]:
        """Returns the layers of the stack."""
        return [self.rnn]

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Any = None) -> None:
        self._build_blocks(inputs_shape, encoder_outputs_shape)

    def call(
        self,
        inputs: Any,
        encoder_outputs: Any = None,
        state: dict[str, Any] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        step_inputs = {}
        if state is not None:
            step_inputs = {
                "source": state["memory"],
                "state": state["layers"],
                "offset": state["position"],
            }
        results = self.rnn(
            self.dropout_layer(inputs, training=training),
            encoder_outputs,
            return_attention_scores=return_attention_scores,
            training=training,
            **step_inputs,
        )
        states, *extras = as_tuple(results)
        if return_attention_scores:
            extras[0] = [{"cross": ops.expand_dims(extras[0], 1)}]
        return (states, *extras) if extras else states

    def initial_state(
        self,
        batch_size: int | tf.Tensor,
        max_length: int | tf.Tensor | None,
        encoder_output: EncoderOutput,
    ) -> dict[str, Any]:
        """Returns the decoder's part of a state before the first token.

        "layers" is the state of the `AttentionRNN`, and "memory" what the layer computes once from
        the source. For the arguments see `Decoder.initial_state`.
        """
        states, mask = encoder_output.states, encoder_output.mask
        return {
            "layers": self.rnn.initial_state(states, mask),
            "memory": self.rnn.precompute_source(states, mask),
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": self.rnn.get_config()["attention"]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(Seq2SeqConfig):
    """Settings of a `RecurrentSeq2Seq`.

    Args:
        attention: String. Mechanism of the attention to the source, a name in
            `keras_transformer.layers.MECHANISMS`; it has one head and no projections.
        cell: String. "lstm" or "gru".
        coverage_attention: Boolean. Whether the attention reads the sum of earlier attention
            weights, see `AttentionRNN`; the papers do so with attention="additive".
    """

    cell: str = "lstm"
    coverage_attention: bool = False

    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        # hidden_dim as in Transformers of the same name, and as many layers as help at that size.
        "tiny": {"depth": 1, "hidden_dim": 128},
        "small": {"depth": 2, "hidden_dim": 256},
        # Britz et al. 2017, "Massive Exploration of Neural Machine Translation Architectures"
        "base": {"depth": 4, "hidden_dim": 512},
        # Luong et al. 2015, section 4.1
        "big": {"depth": 4, "hidden_dim": 1000, "dropout": 0.2},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("cell", self.cell, CELLS)
        require_boolean("coverage_attention", self.coverage_attention)
        coverage = self.coverage_attention
        self.require_usable("attention", cache=True, cross=True, coverage=coverage)
        require_even("hidden_dim", self.hidden_dim)  # half for each direction


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentSeq2Seq(Seq2SeqModel):
    """A bidirectional recurrent encoder, and a recurrent decoder with attention.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate";
    the decoder, with input feeding, is that of Luong et al. 2015, "Effective Approaches to
    Attention-based Neural Machine Translation". Inputs, outputs and decoding are those of
    `Transformer`.

    Args:
        **settings: The fields of `RecurrentSeq2SeqConfig`, `dtype` and `name`.

    Example:

    >>> model = RecurrentSeq2Seq.from_size("tiny", vocabulary_size=1000, cell="gru")
    >>> model({"source": tf.constant([[5, 6, 7, 3]]), "target": tf.constant([[2, 8]])}).shape
    TensorShape([1, 2, 1000])
    """

    config_class = RecurrentSeq2SeqConfig
    encoder_class = RecurrentEncoder
    decoder_class = RecurrentDecoder
