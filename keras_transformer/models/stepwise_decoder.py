"""What all decoders share: from layers to logits, a step, and what it attended to."""

import tensorflow as tf
from keras import ops

from keras_transformer.checks import require_positive_integer, require_rank
from keras_transformer.layers.compilation import is_compiled_by_xla


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
        return_weights=False,
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
            return_weights: whether to return as well a list of each layer's weights, by name.
            return_states: whether to return, in place of the logits, the states `[B, T, M]` that
                they are made from.
            **reading: goes to `run`.

        Returns:
            logits, or a tuple of them and, as asked for, weights and the new state.
        """
        reads_attention = self.head.reads_attention and not return_states
        states, weights, layers = self.run(
            ids, memory, state, training, return_weights or reads_attention, **reading
        )
        outputs = [states]
        if not return_states:
            read = {}
            if reads_attention:
                read["attention"] = self.alignment(weights)
                read["is_token"] = self.embedding.compute_mask(ids)
            outputs = [self.head(states, source=source, state=state, training=training, **read)]
        if return_weights:
            outputs.append(weights)
        if state is not None:
            position = state["position"] + tf.shape(ids)[1]
            outputs.append({**state, "position": position, "layers": layers})
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def run(self, ids, memory, state, training, return_weights):
        """The layers of the decoder.

        Args:
            ids, memory, state, training: see the call.
            return_weights: whether the weights are wanted.

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
        outputs = self(ids, state=state, training=False, return_weights=return_attention)
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
