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
    require_positive_integer,
)
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import AttentionMechanism
from keras_transformer.layers.attention_recurrence import AttentionRNN
from keras_transformer.layers.call_helpers import as_tuple
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.recurrence import CELLS, BidirectionalRNN
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.base import Seq2SeqModel
from keras_transformer.models.config import Seq2SeqConfig, require_source_attention
from keras_transformer.models.encoder import EncoderOutput, SourceReader, Stack, cross_scores_spec


class RecurrentStack(Stack):
    """Base of `RecurrentEncoder` and `RecurrentDecoder`, which need no position encoding.

    Args: those of `RecurrentEncoder`.
    """

    def __init__(
        self, num_layers: int, hidden_dim: int, cell: str, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(None, 1, dropout, **kwargs)
        self.num_layers: int = require_positive_integer("num_layers", num_layers)
        self.hidden_dim: int = hidden_dim
        self.cell: str = cell

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["positions"], config["max_length"]
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

    def build(self, inputs_shape: Shape) -> None:
        for rnn in self.blocks:
            rnn.build(inputs_shape)
        super().build(inputs_shape)

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
        self.rnn.build(inputs_shape, encoder_outputs_shape)
        super().build(inputs_shape)

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

    def _scores_spec(self, inputs: Any, encoder_outputs: Any) -> list[Any]:
        return cross_scores_spec(inputs, encoder_outputs, self.compute_dtype, count=1)

    def initial_state(
        self,
        batch_size: int | tf.Tensor,
        max_length: int | tf.Tensor | None,
        encoder_output: EncoderOutput,
    ) -> dict[str, Any]:
        """Returns the decoder's part of a state before the first token.

        Its size does not depend on the length of the target. "layers" is the state of the
        `AttentionRNN`, and "memory" what it computes from the source once. The arguments are those
        of `Decoder.initial_state`; `max_length` is not used.
        """
        states, mask = encoder_output.states, encoder_output.mask
        return {
            "layers": self.rnn.initial_state(states, mask),
            "memory": self.rnn.precompute_source(states, mask),
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": self.rnn.get_config()["attention"]}


#: Sizes by name. `depth` is the number of layers of encoder and decoder each.
RECURRENT_SIZES: dict[str, dict[str, Any]] = {
    # As wide as the Transformers of the same name, with as many layers as help at that width.
    "tiny": {"depth": 1, "hidden_dim": 128},
    "small": {"depth": 2, "hidden_dim": 256},
    # Britz et al. 2017, "Massive Exploration of Neural Machine Translation Architectures", table 7
    "base": {"depth": 4, "hidden_dim": 512},
    # Luong et al. 2015, section 4.1
    "big": {"depth": 4, "hidden_dim": 1000, "dropout": 0.2},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(Seq2SeqConfig):
    """Settings of a `RecurrentSeq2Seq`, with the arguments of that class."""

    cell: str = "lstm"
    coverage_attention: bool = False

    sizes: ClassVar[dict[str, dict[str, Any]]] = RECURRENT_SIZES

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("cell", self.cell, CELLS)
        require_boolean("coverage_attention", self.coverage_attention)
        require_source_attention(self, coverage=self.coverage_attention)
        require_even("hidden_dim", self.hidden_dim)  # half for each direction


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentSeq2Seq(Seq2SeqModel):
    """A bidirectional recurrent encoder, and a recurrent decoder with attention.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate";
    the decoder, with input feeding, is that of Luong et al. 2015, "Effective Approaches to
    Attention-based Neural Machine Translation". Inputs, outputs and decoding are those of
    `Transformer`.

    Args:
        vocabulary_size: Integer. V, number of tokens.
        hidden_dim: Integer. M, size of the hidden states. Defaults to 512.
        max_length: Integer. Maximum length, where positions or caches have one. Defaults to 1024.
        dropout: Float. Dropout rate of embeddings and layers' outputs. Defaults to 0.1.
        attention: String. Mechanism of the attention to the source, a name in
            `keras_transformer.layers.MECHANISMS`; it has one head and no projections. Defaults to
            "scaled_dot_product".
        attention_options: Dictionary. Arguments of the mechanism. Defaults to none.
        padding_id: Integer. Token id that fills the rows of a batch. Defaults to 0.
        unknown_id: Integer. Token id of what the vocabulary cannot spell. Defaults to 1.
        start_id: Integer. Token id that the decoder starts with. Defaults to 2.
        end_id: Integer. Token id that ends every source and target. Defaults to 3.
        target_vocabulary_size: Integer. Number of target tokens. Defaults to `vocabulary_size`.
        num_encoder_layers: Integer. Number of encoder layers. Defaults to 4.
        num_decoder_layers: Integer. Number of decoder layers. Defaults to 4.
        share_embeddings: String. Which embedding tables are one: "all" (source, target and output),
            "target" (target and output) or "none". Defaults to "all".
        copies: Boolean. Whether source tokens can be copied, see `PointerGenerator`. Needs
            share_embeddings="all". Defaults to False.
        coverage_weight: Float. Weight of a `CoverageLoss`; 0 for none. Defaults to 0.
        cell: String. "lstm" or "gru". Defaults to "lstm".
        coverage_attention: Boolean. Whether the attention reads the sum of earlier attention
            weights, see `AttentionRNN`; the papers do so with attention="additive". Defaults to
            False.
        dtype: Dtype policy of all layers, such as "mixed_bfloat16". Defaults to Keras' global one.
        name: String. Name of the model.

    Example:

    >>> model = RecurrentSeq2Seq.from_size("tiny", vocabulary_size=1000, cell="gru")
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = RecurrentSeq2SeqConfig

    @staticmethod
    def make_reader(
        config: RecurrentSeq2SeqConfig, embedding: TokenEmbedding, dtype: keras.DTypePolicy
    ) -> SourceReader:
        encoder = RecurrentEncoder(
            config.num_encoder_layers,
            config.hidden_dim,
            config.cell,
            config.dropout,
            dtype=dtype,
            name="encoder",
        )
        return SourceReader(embedding, encoder)

    @staticmethod
    def make_decoder(config: RecurrentSeq2SeqConfig, dtype: keras.DTypePolicy) -> RecurrentDecoder:
        return RecurrentDecoder(
            config.num_decoder_layers,
            config.hidden_dim,
            config.cell,
            config.mechanism("attention"),
            config.dropout,
            config.coverage_attention,
            dtype=dtype,
            name="decoder",
        )
