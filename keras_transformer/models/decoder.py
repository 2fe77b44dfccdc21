"""Tokens so far, and a memory if there is one, to logits of the next token."""

import tensorflow as tf

from keras_transformer.checks import require_positive_integer, require_rank
from keras_transformer.layers import DecoderBlock, PackedSegments
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stack import Stack


class Decoder(Stack):
    """A stack of decoder blocks.

    Args: see `Stack`, and
        num_layers: number of blocks.
        output: the `TokenEmbedding` whose reverse gives the logits.
        block_settings: further arguments for each `DecoderBlock`.
    """

    def __init__(
        self, config, embedding, output, num_layers, name="decoder", dtype=None, **block_settings
    ):
        super().__init__(config, embedding, name, dtype)
        self.output = output
        self.packing = PackedSegments(name=f"{name}_packing", dtype=dtype)
        self.blocks = [
            DecoderBlock(
                **config.block_settings(), **block_settings, name=f"{name}_{i}", dtype=dtype
            )
            for i in range(num_layers)
        ]

    def __call__(
        self,
        ids,
        memory=None,
        segments=None,
        state=None,
        training=None,
        return_weights=False,
    ):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: states of an encoder `[B, S, M]`, with an implicit mask.
            segments: numbers `[B, T]` of the documents packed in a row, see `PackedSegments`.
            state: from `initial_state` or the call before this one.
            return_weights: whether to return as well a list of each block's weights.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
        attention_mask, where, weights, caches = None, {}, [], []
        if segments is not None:
            attention_mask, where["positions"] = self.packing(segments)
        if state is not None:
            where["offset"] = state["position"]
        states = self.embed(ids, training, **where)
        for i, block in enumerate(self.blocks):
            outputs = block(
                states,
                memory,
                attention_mask=attention_mask,
                return_weights=return_weights,
                cache=state and state["layers"][i],
                offset=state["position"] if state else 0,
                training=training,
            )
            states, *extras = as_tuple(outputs)
            if return_weights:
                weights.append(extras.pop(0))
            if state:
                caches.append(extras.pop(0))
        logits = self.output(self.finish(states), reverse=True)
        asked_for = [weights] if return_weights else []
        if state:
            asked_for.append({"position": state["position"] + tf.shape(ids)[1], "layers": caches})
        return (logits, *asked_for) if asked_for else logits

    def initial_state(self, batch_size, max_length=None, memory=None):
        """The state before the first token.

        A nest of tensors that keeps its structure and shapes from step to step. The first axis of
        all of them is the batch, so that a beam can reorder them; "position", a scalar, is the
        number of tokens seen, shared by all rows.

        Args:
            batch_size: B, an integer or a scalar tensor.
            max_length: how many tokens there will be at most; by default the config's.
            memory: a `Memory` of the same batch, if there is one to attend to.
        """
        if max_length is None:
            max_length = self.config.max_length
        require_positive_integer("max_length", max_length)
        if self.positions is not None:
            self.positions.check_length(max_length, offset=0)
        return {
            "position": tf.constant(0, tf.int32),
            "layers": [
                block.initial_cache(batch_size, max_length, *(memory or ()))
                for block in self.blocks
            ],
        }

    def step(self, ids, state):
        """Logits after the next tokens, and the state after them.

        Args:
            ids: one token for each row, `[B]`; or several, `[B, T]`, as of a prompt.
            state: from `initial_state` or the step before.

        Returns:
            logits `[B, V]` (or `[B, T, V]`), state.

        A step past the state's `max_length` is an error; only under XLA, which has no run-time
        errors, must the caller see to it.
        """
        ids = require_rank("ids", tf.convert_to_tensor(ids), {1: "B", 2: "B, T"})
        is_single = len(ids.shape) == 1
        if is_single:
            ids = ids[:, None]
        self._check_fit(ids, state)
        logits, state = self(ids, state=state, training=False)
        return (logits[:, 0] if is_single else logits), state

    def _check_fit(self, ids, state):
        batch_size, _, max_length, _ = state["layers"][0]["self"]["key"].shape
        if None not in (batch_size, ids.shape[0]) and batch_size != ids.shape[0]:
            raise ValueError(
                f"`ids` must have a row for each of the state's {batch_size}; got {ids.shape[0]}."
            )
        end = state["position"] + tf.shape(ids)[1]
        message = (
            f"The decoder's state has room for max_length={max_length} tokens, and this step goes "
            "past it. Ask initial_state for a larger max_length."
        )
        known = tf.get_static_value(end)
        if known is None:
            tf.debugging.assert_less_equal(end, max_length, message)
        elif known > max_length:
            raise ValueError(message)
