"""Tokens so far, and a memory if there is one, to logits of the next token."""

import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer, require_rank
from keras_transformer.layers import DecoderBlock, PackedSegments
from keras_transformer.layers.compilation import is_compiled_by_xla
from keras_transformer.layers.kv_cache import GrowingCache
from keras_transformer.layers.transformer_block import as_tuple
from keras_transformer.models.encoder import Stack


class StepwiseDecoder:
    """A decoder that is run over whole targets in training, and over one token in decoding.

    A subclass is a `TokenReader` with a `head`, the `OutputHead` that makes the logits, and has two
    methods: `initial_state`, and `run`, its layers.
    """

    def __call__(
        self,
        ids,
        memory=None,
        source=None,
        state=None,
        training=None,
        return_attention_scores=False,
        return_states=False,
        **reading,
    ):
        """Logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: the tokens so far; with a `state`, only those not seen yet.
            memory: what the encoder gave, with an implicit mask.
            source: the ids `[B, S]` behind the memory, for a decoder that copies them.
            state: from `initial_state` or the call before this one.
            training: see Keras.
            return_attention_scores: whether to return as well a list of each layer's weights, by name.
            return_states: whether to return, in place of the logits, the states `[B, T, M]` that
                they are made from.
            **reading: goes to `run`.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
        reads_attention = self.head.reads_attention and not return_states
        states, weights, layers = self.run(
            ids, memory, state, training, return_attention_scores or reads_attention, **reading
        )
        outputs = [states]
        if not return_states:
            read = {}
            if reads_attention:
                read["attention"] = self.alignment(weights)
                read["is_token"] = self.embedding.compute_mask(ids)
            outputs = [self.head(states, source=source, state=state, training=training, **read)]
        if return_attention_scores:
            outputs.append(weights)
        if state is not None:
            position = state["position"] + tf.shape(ids)[1]
            outputs.append({**state, "position": position, "layers": layers})
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def run(self, ids, memory, state, training, return_attention_scores):
        """The layers of the decoder.

        Args:
            ids, memory, state, training: see the call.
            return_attention_scores: whether the weights are wanted.

        Returns:
            states `[B, T, M]`; a list of each layer's weights, by name, "cross" `[B, H, T, S]`
            being those of the memory, if they are wanted; and the state's "layers" after these
            tokens, if there is a state.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `run`.")

    def step(self, ids, state, return_attention=False):
        """Logits after the next tokens, and the state after them.

        Args:
            ids: one token for each row, `[B]`; or several, `[B, T]`, as of a prompt.
            state: from `initial_state` or the step before.
            return_attention: whether to return as well what the tokens attend to in the memory,
                `[B, S]` (or `[B, T, S]`), see `alignment`.

        Returns:
            logits `[B, V]` (or `[B, T, V]`), attention if asked for, state.

        A step past the state's room is an error; only under XLA, which has no run-time errors, must
        the caller see to it.
        """
        ids = require_rank("ids", tf.convert_to_tensor(ids), {1: "B", 2: "B, T"})
        is_single = len(ids.shape) == 1
        if is_single:
            ids = ids[:, None]
        ids = self.checked_to_fit(ids, state)
        outputs = self(ids, state=state, training=False, return_attention_scores=return_attention)
        logits, *weights, state = outputs
        outputs = [logits, *(self.alignment(layer_weights) for layer_weights in weights)]
        return (*(output[:, 0] if is_single else output for output in outputs), state)

    def alignment(self, weights):
        """The attention to the memory `[B, T, S]` out of all layers' weights.

        It is the mean over the heads of the last layer but one, or of the only one: in Transformers
        that aligns best (Garg et al. 2019, "Jointly Learning to Align and Translate with
        Transformer Models").
        """
        if "cross" not in weights[-1]:
            raise ValueError("There is no memory to attend to: a decoder alone has no alignment.")
        cross = weights[-2:][0]["cross"]  # [B, H, T, S]
        return ops.mean(ops.cast(cross, "float32"), axis=1)

    def checked_to_fit(self, ids, state):
        """The `ids` `[B, T]`; raises if the state has other rows, or no room for them."""
        rows = tf.nest.flatten(state["layers"])[0].shape[0]
        if None not in (rows, ids.shape[0]) and rows != ids.shape[0]:
            raise ValueError(
                f"`ids` must have a row for each of the state's {rows}; got {ids.shape[0]}."
            )
        return ids

    def plan(self, max_length):
        """Checks how long the target may become.

        Args:
            max_length: an integer, a scalar tensor, or None for the config's.

        Returns:
            the length; and whether shapes may change from step to step, see
            `Decoder.initial_state`.
        """
        if max_length is None:
            max_length = self.config.max_length
        if not tf.is_tensor(max_length):
            require_positive_integer("max_length", max_length)
            if self.positions is not None:
                self.positions.check_length(max_length, offset=0)
        return max_length, tf.is_tensor(max_length) and not is_compiled_by_xla()

    @property
    def position_limit(self):
        """How many tokens can be written, or None if there is no end to them."""
        return min(self.length_limits().values(), default=None)

    def length_limits(self):
        """How many tokens the decoder can read, by the config's fields that set an end to them."""
        return self.config.length_limits(fields=())


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

    def run(self, ids, memory, state, training, return_attention_scores, segments=None):
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
                return_attention_scores=return_attention_scores,
                cache=state and self._cache(state, i),
                offset=state["position"] if state else 0,
                training=training,
            )
            states, *extras = as_tuple(block_outputs)
            if return_attention_scores:
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
