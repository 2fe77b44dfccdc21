"""Convolutional sequence to sequence: words know each other through windows."""

import dataclasses
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_positive_integer, require_rank
from keras_transformer.layers.convolution import (
    ConvolutionalDecoderBlock,
    ConvolutionalEncoderBlock,
    ConvolutionalMemory,
)
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.positions import SCHEMES
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.base import SourceModel
from keras_transformer.models.config import SourceConfig
from keras_transformer.models.decoder import StepwiseDecoder
from keras_transformer.models.encoder import TokenReader
from keras_transformer.models.heads import OutputHead, make_tables


class ValuedMemory(NamedTuple):
    """A `Memory` whose values are not its states.

    Attributes:
        states: `[B, S, M]`, the keys.
        mask: boolean `[B, S]`, False for padding.
        values: `[B, S, M]`.
        ids: int32 `[B, S]`, the tokens themselves, for a decoder that copies them.
    """

    states: tf.Tensor
    mask: tf.Tensor
    values: tf.Tensor
    ids: tf.Tensor


class ConvolutionalEncoder(TokenReader):
    """Blocks on top of each other: n of them see windows of n·(kernel_width - 1) + 1 tokens.

    Args: see `TokenReader`; the config is a `ConvolutionalSeq2SeqConfig`.
    """

    def __init__(self, config, embedding, name="encoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.blocks = [
            ConvolutionalEncoderBlock(
                config.kernel_width, config.dropout, name=f"{name}_{i}", dtype=dtype
            )
            for i in range(config.num_encoder_layers)
        ]
        self.memory = ConvolutionalMemory(
            config.num_decoder_layers, name=f"{name}_memory", dtype=dtype
        )

    def __call__(self, ids, training=None):
        """Keys, with an implicit mask, and values, each `[B, S, M]`, of tokens `[B, S]`."""
        states = embedded = self.embed(ids, training)
        for block in self.blocks:
            states = block(states, training=training)
        return self.memory(states, embedded, training=training)

    def encode(self, ids):
        """The `ValuedMemory` of tokens `[B, S]`."""
        ids = require_rank("source", tf.convert_to_tensor(ids), {2: "B, S"})
        keys, values = self(ids, training=False)
        return ValuedMemory(keys, self.embedding.compute_mask(ids), values, ids)


class ConvolutionalDecoder(StepwiseDecoder, TokenReader):
    """Blocks on top of each other, each of which attends to the memory.

    Args: see `TokenReader`; the config is a `ConvolutionalSeq2SeqConfig`, and
        head: the `OutputHead` that gives the logits.
    """

    def __init__(self, config, embedding, head, name="decoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.head = head
        self.blocks = [
            ConvolutionalDecoderBlock(
                config.kernel_width,
                config.mechanism("attention"),
                config.dropout,
                name=f"{name}_{i}",
                dtype=dtype,
            )
            for i in range(config.num_decoder_layers)
        ]
        self.last_dropout = Dropout(config.dropout, name=f"{name}_last_dropout", dtype=dtype)

    def run(self, ids, memory, state, training, return_attention_scores):
        """See `StepwiseDecoder.run`; the memory is keys and values, each `[B, S, M]`."""
        key, value = (state["memory"]["states"], state["memory"]["values"]) if state else memory
        position = state["position"] if state else 0
        given = {"key_mask": state["memory"]["mask"], "offset": position} if state else {}
        states = embedded = self.embed(ids, training, offset=position)
        weights, caches = [], []
        for i, block in enumerate(self.blocks):
            states, *extras = as_tuple(
                block(
                    states,
                    embedded,
                    key,
                    value,
                    cache=state and state["layers"][i],
                    return_attention_scores=return_attention_scores,
                    training=training,
                    **given,
                )
            )
            if return_attention_scores:
                weights.append({"cross": ops.expand_dims(extras.pop(0), 1)})
            caches += extras
        return self.last_dropout(states, training=training), weights, caches

    def initial_state(self, batch_size, max_length, memory):
        """The state before the first token; see `Decoder.initial_state`.

        Its "layers" are the last inputs of each block, `[B, kernel_width - 1, M]`, however long the
        target becomes.
        """
        _, has_kernels = self.plan(max_length)
        state = {
            "position": tf.constant(0, tf.int32),
            "layers": [block.initial_cache(batch_size) for block in self.blocks],
            "memory": {name: getattr(memory, name) for name in ("states", "values", "mask")},
        }
        return {**state, **self.head.initial_state(batch_size, memory, has_kernels)}


#: Sizes by name. `depth` is the number of blocks of encoder and decoder each.
CONVOLUTIONAL_PRESETS = {
    # Of the hidden_dim of the Transformer of that name.
    "tiny": {"depth": 4, "hidden_dim": 128},
    # Gehring et al. 2017, section 5.6, for summaries
    "small": {"depth": 6, "hidden_dim": 256},
    # Gehring et al. 2017, section 5.1, for WMT'16 English to Romanian
    "base": {"depth": 20, "hidden_dim": 512},
    # As deep as their model for WMT'14 English to German, whose widths run from 512 to 2048.
    "big": {"depth": 15, "hidden_dim": 768},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvolutionalSeq2SeqConfig(SourceConfig):
    """Settings of a `ConvolutionalSeq2Seq`.

    Attributes: those of `SourceConfig`, and
        kernel_width: number of tokens in a window. The paper's 3.
        positions: scheme added to the embeddings, by its registered name; or "none".
    """

    kernel_width: int = 3
    positions: str = "learned"

    presets = CONVOLUTIONAL_PRESETS

    def __post_init__(self):
        super().__post_init__()
        require_positive_integer("kernel_width", self.kernel_width)
        require_choice("positions", self.positions, (*SCHEMES, "none"))

    @property
    def position_scheme(self):
        """The scheme that `positions` stands for, or None."""
        return None if self.positions == "none" else self.positions


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalSeq2Seq(SourceModel):
    """Convolutions in encoder and decoder, with attention to the source in each decoder block.

    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning". A word is seen through the
    windows that it is in: n blocks of a `kernel_width` k reach n·(k - 1) + 1 tokens, and only the
    attention to the source reaches further. Inputs, outputs and decoding: see `SourceModel`.

    Args:
        config: a `ConvolutionalSeq2SeqConfig`.
        dtype: dtype policy of all layers, such as "mixed_bfloat16".
        name: of the model.

    Example:

    >>> model = ConvolutionalSeq2Seq.from_preset("tiny", vocabulary_size=1000, kernel_width=5)
    >>> state = model.initial_state(model.encode([[5, 6, 7, 3]]), max_length=20)
    >>> logits, state = model.step([2], state)
    >>> logits.shape
    TensorShape([1, 1000])
    """

    config_class = ConvolutionalSeq2SeqConfig

    def __init__(self, config, dtype=None, **kwargs):
        dtype = self.check(config, dtype)
        tables = make_tables(config, dtype)
        encoder = ConvolutionalEncoder(config, tables.source, dtype=dtype)
        head = OutputHead(tables.output, dtype, config.copies, config.coverage_weight)
        decoder = ConvolutionalDecoder(config, tables.target, head, dtype=dtype)
        super().__init__(config, dtype, encoder, decoder, **kwargs)
