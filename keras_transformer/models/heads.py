"""What stands between the states of a decoder and its logits."""

from typing import NamedTuple

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_not_negative,
    require_positive_integer,
)
from keras_transformer.layers import CoverageLoss, PointerGenerator, TokenEmbedding


class EmbeddingTables(NamedTuple):
    """The `TokenEmbedding`s of a model with a source; some of them may be one and the same."""

    source: TokenEmbedding
    target: TokenEmbedding
    output: TokenEmbedding


def require_shareable(config):
    """Raises `ValueError` unless a config's vocabularies can share what `share_embeddings` says."""
    require_choice("share_embeddings", config.share_embeddings, ("all", "target", "none"))
    if config.target_vocabulary_size is None:
        return
    require_positive_integer("target_vocabulary_size", config.target_vocabulary_size)
    is_other = config.target_vocabulary_size != config.vocabulary_size
    if config.share_embeddings == "all" and is_other:
        raise ValueError(
            "One table for source and target needs one vocabulary; got vocabulary_size="
            f"{config.vocabulary_size} and target_vocabulary_size="
            f"{config.target_vocabulary_size}. Use share_embeddings='target'."
        )


def make_tables(config, dtype):
    """Makes the `EmbeddingTables` that a config asks for."""

    def table(name, vocabulary_size):
        return TokenEmbedding(
            vocabulary_size, config.hidden_dim, config.padding_id, name=name, dtype=dtype
        )

    if config.share_embeddings == "all":
        shared = table("embedding", config.vocabulary_size)
        return EmbeddingTables(shared, shared, shared)
    target_size = config.target_vocabulary_size or config.vocabulary_size
    source = table("source_embedding", config.vocabulary_size)
    target = output = table("target_embedding", target_size)
    if config.share_embeddings == "none":
        output = table("output_embedding", target_size)
    return EmbeddingTables(source, target, output)


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
