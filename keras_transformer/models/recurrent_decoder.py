"""Tokens so far and a memory to logits of the next token, by recurrent layers."""

import tensorflow as tf
from keras import ops

from keras_transformer.layers.recurrence.attention_recurrence import AttentionRecurrence
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stepwise_decoder import StepwiseDecoder
from keras_transformer.models.token_reader import TokenReader


class RecurrentDecoder(StepwiseDecoder, TokenReader):
    """An `AttentionRecurrence` between embedding and logits.

    Args: see `TokenReader`; the config is a `RecurrentSeq2SeqConfig`, and
        head: the `OutputHead` that gives the logits.
    """

    def __init__(self, config, embedding, head, name="decoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.head = head
        self.recurrence = AttentionRecurrence(
            config.width,
            num_layers=config.decoder_layers,
            cell=config.cell,
            attention=config.mechanism("attention"),
            dropout=config.dropout,
            coverage_attention=config.coverage_attention,
            name=name,
            dtype=dtype,
        )

    def run(self, ids, memory, state, training, return_weights):
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
                return_weights=return_weights,
                training=training,
                **given,
            )
        )
        weights = [{"cross": ops.expand_dims(extras.pop(0), 1)}] if return_weights else []
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
