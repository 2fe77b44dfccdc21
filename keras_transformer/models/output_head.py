"""What stands between the states of a decoder and its logits."""

from keras_transformer.checks import require_boolean, require_not_negative
from keras_transformer.layers import CoverageLoss, PointerGenerator


def require_usable_output(config):
    """Raises `ValueError` unless a config's `copies` and `coverage_weight` make an `OutputHead`."""
    require_boolean("copies", config.copies)
    require_not_negative("coverage_weight", config.coverage_weight)
    if config.copies and config.share_embeddings != "all":
        raise ValueError(
            "`copies` needs one vocabulary for source and target, where an id means the same; "
            f"got share_embeddings={config.share_embeddings!r}. Use share_embeddings='all'."
        )


class OutputHead:
    """Logits from states, and from what they attended to where that has a say.

    Args:
        output: the `TokenEmbedding` whose reverse gives the logits.
        dtype: dtype policy of the layers beside it.
        copies: whether tokens of the source can be copied, see `PointerGenerator`.
        coverage_weight: of the `CoverageLoss`; 0 for none.
        name: prefix of the layers' names.
    """

    def __init__(self, output, dtype=None, copies=False, coverage_weight=0.0, name="decoder"):
        self.output = output
        self.pointer = self.coverage = None
        if copies:
            self.pointer = PointerGenerator(name=f"{name}_pointer", dtype=dtype)
        if coverage_weight:
            self.coverage = CoverageLoss(coverage_weight, name=f"{name}_coverage", dtype=dtype)

    @property
    def reads_attention(self):
        """Whether it must be told what the states attended to."""
        return self.pointer is not None or self.coverage is not None

    def __call__(
        self, states, attention=None, is_token=None, source=None, state=None, training=None
    ):
        """Logits `[B, T, V]` of states `[B, T, M]`.

        Args:
            states: of the decoder.
            attention: what they attended to, `[B, T, S]`, for a head that reads it.
            is_token: boolean `[B, T]`, False for padding of the target; for the `CoverageLoss`.
            source: the ids `[B, S]` behind the memory, for a head that copies them.
            state: in a step, the decoder's, with what `initial_state` put there.
            training: see Keras.
        """
        if self.coverage is not None:
            states = self.coverage(states, attention, is_token, training=training)
        if state is None:
            logits = self.output(states, reverse=True)
        else:
            logits = self.output.to_logits(states, state.get("kernels", {}).get("output"))
            source = state.get("source")
        return logits if self.pointer is None else self.pointer(states, logits, attention, source)

    def initial_state(self, batch_size, memory, has_kernels):
        """The head's part of a decoder's state: "source" and "kernels", see
        `Decoder.initial_state`.

        Args:
            batch_size: B, an integer or a scalar tensor.
            memory: a `Memory`, or None.
            has_kernels: whether a search is going to take many steps in a plain graph.
        """
        state = {}
        if self.pointer is not None:
            state["source"] = memory.ids
        if has_kernels:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state
