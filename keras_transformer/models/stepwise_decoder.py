"""What all decoders share: a step, the logits of a step, and what it attended to."""

import tensorflow as tf
from keras import ops

from keras_transformer.checks import require_positive_integer, require_rank
from keras_transformer.layers.compilation import is_compiled_by_xla


class StepwiseDecoder:
    """A decoder that is run over whole targets in training, and over one token in decoding.

    A subclass is a `TokenReader` with an `output`, the `TokenEmbedding` whose reverse gives the
    logits. Called with `(ids, state=…, training=…, return_weights=…)` it returns logits, weights if
    asked for, and the state after them.
    """

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

    def make_logits(self, states, state=None):
        """Logits `[B, T, V]` of states `[B, T, M]`; in a step, with the state's kernels."""
        if state is None:
            return self.output(states, reverse=True)
        return self.output.to_logits(states, state.get("kernels", {}).get("output"))
