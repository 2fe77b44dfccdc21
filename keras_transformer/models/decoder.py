"""Tokens so far, and a memory if there is one, to logits of the next token."""

import tensorflow as tf

from keras_transformer.checks import require_positive_integer, require_rank
from keras_transformer.layers import DecoderBlock, PackedSegments
from keras_transformer.layers.compilation import is_compiled_by_xla
from keras_transformer.layers.growing_cache import GrowingCache
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
        return_states=False,
    ):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: states of an encoder `[B, S, M]`, with an implicit mask.
            segments: numbers `[B, T]` of the documents packed in a row, see `PackedSegments`.
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
        outputs = self.finish(states)
        if not return_states:
            outputs = self._logits(outputs, state)
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
        if max_length is None:
            max_length = self.config.max_length
        if not tf.is_tensor(max_length):
            require_positive_integer("max_length", max_length)
            if self.positions is not None:
                self.positions.check_length(max_length, offset=0)
        grows = tf.is_tensor(max_length) and not is_compiled_by_xla()
        room = None if grows else max_length
        caches = [block.initial_cache(batch_size, room, *(memory or ())) for block in self.blocks]
        state = {
            "position": tf.constant(0, tf.int32),
            "layers": [cache["self"] for cache in caches],
        }
        if memory is not None:
            state["memory"] = [cache["memory"] for cache in caches]
        if grows:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state

    @property
    def position_limit(self):
        """How many tokens the positions reach, or None if there is no end to them."""
        is_bounded = self.positions is not None and self.positions.is_bounded
        return self.config.max_length if is_bounded else None

    def step(self, ids, state, return_attention=False):
        """Logits after the next tokens, and the state after them.

        Args:
            ids: one token for each row, `[B]`; or several, `[B, T]`, as of a prompt.
            state: from `initial_state` or the step before.
            return_attention: whether to return as well what the tokens attend to in the memory,
                `[B, S]` (or `[B, T, S]`): the mean over the heads of the last block but one, whose
                attention aligns best (Garg et al. 2019, "Jointly Learning to Align and Translate
                with Transformer Models").

        Returns:
            logits `[B, V]` (or `[B, T, V]`), attention if asked for, state.

        A step past the state's room is an error; only under XLA, which has no run-time errors, must
        the caller see to it.
        """
        ids = require_rank("ids", tf.convert_to_tensor(ids), {1: "B", 2: "B, T"})
        is_single = len(ids.shape) == 1
        if is_single:
            ids = ids[:, None]
        self._check_fit(ids, state)
        outputs = self(ids, state=state, training=False, return_weights=return_attention)
        logits, *weights, state = outputs
        outputs = [logits, *(self.alignment(block_weights) for block_weights in weights)]
        return (*(output[:, 0] if is_single else output for output in outputs), state)

    def alignment(self, weights):
        """The attention to the memory `[B, T, S]` out of all blocks' weights; see `step`."""
        if "cross" not in weights[-1]:
            raise ValueError("There is no memory to attend to: a decoder alone has no alignment.")
        cross = weights[-2:][0]["cross"]  # [B, H, T, S]
        return tf.reduce_mean(tf.cast(cross, tf.float32), axis=1)

    def _cache(self, state, i):
        """What block number `i` needs of the state."""
        memory = {"memory": state["memory"][i]} if "memory" in state else {}
        return {"self": state["layers"][i], **memory}

    def _logits(self, states, state):
        """Logits `[B, T, V]` of states `[B, T, M]`."""
        if state is None:
            return self.output(states, reverse=True)
        return self.output.to_logits(states, state.get("kernels", {}).get("output"))

    def _check_fit(self, ids, state):
        cache = state["layers"][0]
        if isinstance(cache, GrowingCache):
            return
        batch_size, _, max_length, _ = cache["key"].shape
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
        if max_length is None or known is None:
            max_length = tf.shape(cache["key"])[2]
            tf.debugging.assert_less_equal(end, max_length, message)
        elif known > max_length:
            raise ValueError(message)
