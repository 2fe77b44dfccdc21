"""Tokens so far, and a memory if there is one, to logits of the next token."""

import tensorflow as tf

from keras_transformer.layers import CoverageLoss, DecoderBlock, PackedSegments, PointerGenerator
from keras_transformer.layers.growing_cache import GrowingCache
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stack import Stack
from keras_transformer.models.stepwise_decoder import StepwiseDecoder


class Decoder(StepwiseDecoder, Stack):
    """A stack of decoder blocks.

    Args: see `Stack`, and
        num_layers: number of blocks.
        output: the `TokenEmbedding` whose reverse gives the logits.
        copies: whether tokens of the source can be copied, see `PointerGenerator`.
        coverage_weight: of the `CoverageLoss`; 0 for none.
        block_settings: further arguments for each `DecoderBlock`.
    """

    def __init__(
        self,
        config,
        embedding,
        output,
        num_layers,
        name="decoder",
        dtype=None,
        copies=False,
        coverage_weight=0.0,
        **block_settings,
    ):
        super().__init__(config, embedding, name, dtype, config.decoder_field)
        self.output = output
        self.pointer = self.coverage = None
        if copies:
            self.pointer = PointerGenerator(name=f"{name}_pointer", dtype=dtype)
        if coverage_weight:
            self.coverage = CoverageLoss(coverage_weight, name=f"{name}_coverage", dtype=dtype)
        self.packing = PackedSegments(name=f"{name}_packing", dtype=dtype)
        self.blocks = [
            DecoderBlock(
                **config.block_settings(self.field),
                **block_settings,
                name=f"{name}_{i}",
                dtype=dtype,
            )
            for i in range(num_layers)
        ]

    def __call__(
        self,
        ids,
        memory=None,
        segments=None,
        source=None,
        state=None,
        training=None,
        return_weights=False,
        return_states=False,
    ):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: states of an encoder `[B, S, M]`, with an implicit mask.
            segments: numbers `[B, T]` of the documents packed in a row, see `PackedSegments`.
            source: the ids `[B, S]` behind the memory, for a decoder that copies them.
            state: from `initial_state` or the call before this one.
            return_weights: whether to return as well a list of each block's weights.
            return_states: whether to return, in place of the logits, the states `[B, T, M]` that
                they are made from.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
        attention_mask, where, weights, caches = None, {}, [], []
        if segments is not None:
            attention_mask, where["positions"] = self.packing(segments)
        if state is not None:
            where["offset"] = state["position"]
            source = state.get("source")
        states = self.embed(ids, training, **where)
        needs_weights = return_weights or self._uses_alignment
        for i, block in enumerate(self.blocks):
            block_outputs = block(
                states,
                memory,
                attention_mask=attention_mask,
                return_weights=needs_weights,
                cache=state and self._cache(state, i),
                offset=state["position"] if state else 0,
                training=training,
            )
            states, *extras = as_tuple(block_outputs)
            if needs_weights:
                weights.append(extras.pop(0))
            if state:
                caches.append(extras.pop(0)["self"])
        outputs = self.finish(states)
        if not return_states:
            outputs = self._logits(outputs, state, source, weights, ids, training)
        asked_for = [weights] if return_weights else []
        if state:
            position = state["position"] + tf.shape(ids)[1]
            asked_for.append({**state, "position": position, "layers": caches})
        return (outputs, *asked_for) if asked_for else outputs

    def initial_state(self, batch_size, max_length=None, memory=None):
        """The state before the first token.

        A nest of tensors that keeps its structure from step to step, and its shapes but for caches
        that grow, see below:

        - "position": the number of tokens seen, a scalar shared by all rows;
        - "layers": a cache for each block, with a row for each hypothesis. A beam may repeat and
          reorder the rows of these tensors, their first axis;
        - "memory": what never changes and all hypotheses of a row share, if there is a memory: its
          keys and values for each block. It keeps its B rows, where "layers" may have N·B, those of
          one row of the memory next to each other;
        - "source": the ids behind the memory, for a decoder that copies them, of B rows as well;
        - "kernels": what never changes and all rows share, if there is any: weights in the layout
          that is fastest to multiply with.

        An integer `max_length` is room for so many tokens, in shapes that stay. A scalar tensor is
        a promise alone: the caches are as long as what has been decoded, a `GrowingCache` for each
        block, which is faster. Only XLA, which needs shapes that stay, gets the room even so.

        Args:
            batch_size: B, an integer or a scalar tensor.
            max_length: how many tokens there will be at most, an integer or a scalar tensor; by
                default the config's.
            memory: a `Memory` of the same batch, if there is one to attend to.
        """
        max_length, grows = self.plan(max_length)
        room = None if grows else max_length
        given = () if memory is None else (memory.states, memory.mask)
        caches = [block.initial_cache(batch_size, room, *given) for block in self.blocks]
        state = {
            "position": tf.constant(0, tf.int32),
            "layers": [cache["self"] for cache in caches],
        }
        if memory is not None:
            state["memory"] = [cache["memory"] for cache in caches]
        if self.pointer is not None:
            state["source"] = memory.ids
        if grows:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state

    def length_limits(self):
        return self.config.length_limits([self.field])

    def _cache(self, state, i):
        """What block number `i` needs of the state."""
        memory = {"memory": state["memory"][i]} if "memory" in state else {}
        return {"self": state["layers"][i], **memory}

    def _logits(self, states, state, source, weights, ids, training):
        """Logits `[B, T, V]` of states `[B, T, M]` and of what the blocks attended to."""
        attention = self.alignment(weights) if self._uses_alignment else None  # [B, T, S]
        if self.coverage is not None:
            is_token = self.embedding.compute_mask(ids)
            states = self.coverage(states, attention, is_token, training=training)
        logits = self.make_logits(states, state)
        return logits if self.pointer is None else self.pointer(states, logits, attention, source)

    @property
    def _uses_alignment(self):
        return self.pointer is not None or self.coverage is not None

    def checked_to_fit(self, ids, state):
        ids = super().checked_to_fit(ids, state)
        cache = state["layers"][0]
        if isinstance(cache, GrowingCache):
            return ids
        max_length = cache["key"].shape[2]
        end = state["position"] + tf.shape(ids)[1]
        message = (
            f"The decoder's state has room for max_length={max_length} tokens, and this step goes "
            "past it. Ask initial_state for a larger max_length."
        )
        known = tf.get_static_value(end)
        if max_length is None or known is None:
            max_length = tf.shape(cache["key"])[2]
            # Before anything is written, or the write may fail first, with another message.
            fits = tf.debugging.assert_less_equal(end, max_length, message)
            with tf.control_dependencies([fits]):
                return tf.identity(ids)
        if known > max_length:
            raise ValueError(message)
        return ids
