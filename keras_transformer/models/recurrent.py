"""Recurrent sequence to sequence: what translated before Transformers did."""

import dataclasses

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_boolean, require_choice, require_even
from keras_transformer.layers.attention_recurrence import AttentionRecurrence
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.recurrence import CELLS, BidirectionalRecurrence
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.base import SourceModel
from keras_transformer.models.config import SourceConfig
from keras_transformer.models.decoder import StepwiseDecoder
from keras_transformer.models.encoder import MemoryMaker, TokenReader
from keras_transformer.models.heads import OutputHead, make_tables


class RecurrentEncoder(MemoryMaker, TokenReader):
    """Bidirectional layers on top of each other, with dropout between them.

    Args: see `TokenReader`; the config is a `RecurrentSeq2SeqConfig`.
    """

    def __init__(self, config, embedding, name="encoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.layers = [
            BidirectionalRecurrence(config.hidden_dim, config.cell, name=f"{name}_{i}", dtype=dtype)
            for i in range(config.num_encoder_layers)
        ]
        self.drops = [
            Dropout(config.dropout, name=f"{name}_{i}_dropout", dtype=dtype)
            for i in range(config.num_encoder_layers)
        ]

    def __call__(self, ids, training=None):
        """States `[B, S, M]` of tokens `[B, S]`, with an implicit mask."""
        states = self.embed(ids, training)
        for layer, drop in zip(self.layers, self.drops, strict=True):
            states = drop(layer(states), training=training)
        return states


class RecurrentDecoder(StepwiseDecoder, TokenReader):
    """An `AttentionRecurrence` between embedding and logits.

    Args: see `TokenReader`; the config is a `RecurrentSeq2SeqConfig`, and
        head: the `OutputHead` that gives the logits.
    """

    def __init__(self, config, embedding, head, name="decoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.head = head
        self.recurrence = AttentionRecurrence(
            config.hidden_dim,
            num_layers=config.num_decoder_layers,
            cell=config.cell,
            attention=config.mechanism("attention"),
            dropout=config.dropout,
            coverage_attention=config.coverage_attention,
            name=name,
            dtype=dtype,
        )

    def run(self, ids, memory, state, training, return_attention_scores):
        """See `StepwiseDecoder.run`; the memory is states of an encoder `[B, S, M]`, and there are
        weights of one layer."""
        given = {"memory": memory}
        if state is not None:
            given = {
                "prepared_memory": state["memory"],
                "state": state["layers"],
                "offset": state["position"],
            }
        states, *extras = as_tuple(
            self.recurrence(
                self.embed(ids, training),
                return_attention_scores=return_attention_scores,
                training=training,
                **given,
            )
        )
        weights = [{"cross": ops.expand_dims(extras.pop(0), 1)}] if return_attention_scores else []
        return states, weights, extras.pop() if extras else None

    def initial_state(self, batch_size, max_length, memory):
        """The state before the first token; see `Decoder.initial_state`, and for its "layers"
        `AttentionRecurrence.initial_state`. It has the same size however long the target becomes.
        """
        _, has_kernels = self.plan(max_length)
        state = {
            "position": tf.constant(0, tf.int32),
            "layers": self.recurrence.initial_state(memory.states, memory.mask),
            "memory": self.recurrence.prepare_memory(memory.states, memory.mask),
        }
        return {**state, **self.head.initial_state(batch_size, memory, has_kernels)}


#: Sizes by name. `depth` is the number of layers of encoder and decoder each.
RECURRENT_PRESETS = {
    # Of the widths of the Transformers of that name, with as many layers as such widths repay.
    "tiny": {"depth": 1, "hidden_dim": 128},
    "small": {"depth": 2, "hidden_dim": 256},
    # Britz et al. 2017, "Massive Exploration of Neural Machine Translation Architectures", table 7
    "base": {"depth": 4, "hidden_dim": 512},
    # Luong et al. 2015, section 4.1
    "big": {"depth": 4, "hidden_dim": 1000, "dropout": 0.2},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecurrentSeq2SeqConfig(SourceConfig):
    """Settings of a `RecurrentSeq2Seq`.

    Attributes: those of `SourceConfig`, and
        cell: "lstm" or "gru".
        coverage_attention: whether the attention is told what it has attended to before, see
            `AttentionRecurrence`; the papers do so with attention="additive". What it costs to go
            there again is another setting, `coverage_weight`.
    """

    cell: str = "lstm"
    coverage_attention: bool = False

    presets = RECURRENT_PRESETS

    def __post_init__(self):
        super().__post_init__()
        require_choice("cell", self.cell, CELLS)
        require_boolean("coverage_attention", self.coverage_attention)
        if self.coverage_attention:
            self.require_usable("attention", is_cached=True, is_cross=True, has_marked_keys=True)
        require_even("hidden_dim", self.hidden_dim)  # half for each direction


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentSeq2Seq(SourceModel):
    """Bidirectional recurrent encoder, and a recurrent decoder that attends to what it made.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate";
    the decoder, with input feeding, is that of Luong et al. 2015, "Effective Approaches to
    Attention-based Neural Machine Translation". Inputs, outputs and decoding: see `SourceModel`.

    Args:
        config: a `RecurrentSeq2SeqConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = RecurrentSeq2Seq.from_preset("tiny", vocabulary_size=1000, cell="gru")
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = RecurrentSeq2SeqConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        tables = make_tables(config, dtype)
        encoder = RecurrentEncoder(config, tables.source, dtype=dtype)
        head = OutputHead(tables.output, dtype, config.copies, config.coverage_weight)
        decoder = RecurrentDecoder(config, tables.target, head, dtype=dtype)
        super().__init__(config, dtype, encoder, decoder, **kwargs)
