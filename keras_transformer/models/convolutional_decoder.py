"""Tokens so far and a memory to logits of the next token, by convolutions."""

import tensorflow as tf
from keras import ops

from keras_transformer.layers.convolutional_decoder_block import ConvolutionalDecoderBlock
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stepwise_decoder import StepwiseDecoder
from keras_transformer.models.token_reader import TokenReader


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
            for i in range(config.decoder_layers)
        ]
        self.last_dropout = Dropout(config.dropout, name=f"{name}_last_dropout", dtype=dtype)

    def run(self, ids, memory, state, training, return_weights):
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
                    return_weights=return_weights,
                    training=training,
                    **given,
                )
            )
            if return_weights:
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
