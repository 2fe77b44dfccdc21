"""Tokens so far, and a memory if there is one, to logits of the next token."""

import tensorflow as tf

from keras_transformer.layers import DecoderBlock, PackedSegments
from keras_transformer.layers.growing_cache import GrowingCache
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.stack import Stack
from keras_transformer.models.stepwise_decoder import StepwiseDecoder


class Decoder(StepwiseDecoder, Stack):
    """A stack of decoder blocks.

    Args: see `Stack`, and
        head: the `OutputHead` that gives the logits.
        num_layers: number of blocks.
        block_settings: further arguments for each `DecoderBlock`.
    """

    def __init__(
        self,
        config,
        embedding,
        head,
        num_layers,
        name="decoder",
        dtype=None,
        **block_settings,
    ):
        super().__init__(config, embedding, name, dtype, config.decoder_field)
        self.head = head
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

    def run(self, ids, memory, state, training, return_weights, segments=None):
        """See `StepwiseDecoder.run`; the memory is states of an encoder `[B, S, M]`, and `segments`
        are numbers `[B, T]` of the documents packed in a row, see `PackedSegments`."""
        attention_mask, where, weights, caches = None, {}, [], []
        if segments is not None:
            attention_mask, where["positions"] = self.packing(segments)
        if state is not None:
            where["offset"] = state["position"]
        states = self.embed(ids, training, **where)
        for i, block in enumerate(self.blocks):
            block_outputs = block(
                states,
                memory,
                attention_mask=attention_mask,
                return_weights=return_weights,
                cache=state and self._cache(state, i),
                offset=state["position"] if state else 0,
                training=training,
            )
            states, *extras = as_tuple(block_outputs)
            if return_weights:
                weights.append(extras.pop(0))
            if state:
                caches.append(extras.pop(0)["self"])
        return self.finish(states), weights, caches

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
        return {**state, **self.head.initial_state(batch_size, memory, grows)}

    def length_limits(self):
        return self.config.length_limits([self.field])

    def _cache(self, state, i):
        """What block number `i` needs of the state."""
        memory = {"memory": state["memory"][i]} if "memory" in state else {}
        return {"self": state["layers"][i], **memory}

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
