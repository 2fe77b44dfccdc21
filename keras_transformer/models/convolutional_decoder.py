"""Tokens so far and a memory to logits of the next token, by convolutions."""

import tensorflow as tf

from keras_transformer.layers.convolutional_decoder_block import ConvolutionalDecoderBlock
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stepwise_decoder import StepwiseDecoder
from keras_transformer.models.token_reader import TokenReader


class ConvolutionalDecoder(StepwiseDecoder, TokenReader):
    """Blocks on top of each other, each of which attends to the memory.

    Args: see `TokenReader`; the config is a `ConvolutionalSeq2SeqConfig`, and
        output: the `TokenEmbedding` whose reverse gives the logits.
    """

    def __init__(self, config, embedding, output, name="decoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.output = output
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

    def __call__(self, ids, memory=None, state=None, training=None, return_weights=False):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: keys, with an implicit mask, and values, each `[B, S, M]`.
            state: from `initial_state` or the call before this one.
            return_weights: whether to return as well a list of each block's weights,
                `{"cross": [B, 1, T, S]}`.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
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
                weights.append({"cross": extras.pop(0)[:, None]})
            caches += extras
        outputs = [self.make_logits(self.last_dropout(states, training=training), state)]
        outputs += [weights] if return_weights else []
        if state:
            position += tf.shape(ids)[1]
            outputs.append({**state, "position": position, "layers": caches})
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def initial_state(self, batch_size, max_length, memory):
        """The state before the first token; see `Decoder.initial_state`.

        Its "layers" are the last inputs of each block, `[B, kernel_width - 1, M]`, however long the
        target becomes.
        """
        _, has_kernels = self.plan(max_length)
        state = {
            "position": tf.constant(0, tf.int32),
            "layers": [block.initial_cache(batch_size) for block in self.blocks],
            "memory": memory._asdict(),
        }
        if has_kernels:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state
