"""Tokens so far and a memory to logits of the next token, by recurrent layers."""

import tensorflow as tf

from keras_transformer.layers.recurrence.attention_recurrence import AttentionRecurrence
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stepwise_decoder import StepwiseDecoder
from keras_transformer.models.token_reader import TokenReader


class RecurrentDecoder(StepwiseDecoder, TokenReader):
    """An `AttentionRecurrence` between embedding and logits.

    Args: see `TokenReader`; the config is a `RecurrentSeq2SeqConfig`, and
        output: the `TokenEmbedding` whose reverse gives the logits.
    """

    def __init__(self, config, embedding, output, name="decoder", dtype=None):
        super().__init__(config, embedding, name, dtype, config.position_scheme)
        self.output = output
        self.recurrence = AttentionRecurrence(
            config.width,
            num_layers=config.decoder_layers,
            cell=config.cell,
            attention=config.mechanism("attention"),
            dropout=config.dropout,
            name=name,
            dtype=dtype,
        )

    def __call__(self, ids, memory=None, state=None, training=None, return_weights=False):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: states of an encoder `[B, S, M]`, with an implicit mask.
            state: from `initial_state` or the call before this one.
            return_weights: whether to return as well a list of each layer's weights: there is one,
                `{"cross": [B, 1, T, S]}`.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
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
        outputs = [self.make_logits(states, state)]
        if return_weights:
            outputs.append([{"cross": extras.pop(0)[:, None]}])
        if state is not None:
            position = state["position"] + tf.shape(ids)[1]
            outputs.append({**state, "position": position, "layers": extras.pop(0)})
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

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
        if has_kernels:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state
