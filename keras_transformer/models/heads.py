"""Embedding tables, and the computation of next-token logits around a decoder."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers import CoverageLoss, PointerGenerator, TokenEmbedding
from keras_transformer.layers.call_helpers import as_tuple, with_extras
from keras_transformer.models.config import ModelConfig, Seq2SeqConfig
from keras_transformer.models.encoder import EncoderOutput, Stack
from keras_transformer.text import SpecialIds


class EmbeddingTables(NamedTuple):
    """The embeddings of a model with source and target; some may be the same layer."""

    source: TokenEmbedding
    target: TokenEmbedding
    output: TokenEmbedding


def make_embedding(
    config: ModelConfig, dtype: Any, name: str = "embedding", vocabulary_size: int | None = None
) -> TokenEmbedding:
    """Returns the `TokenEmbedding` of a config; `vocabulary_size` defaults to the config's."""
    size = config.vocabulary_size if vocabulary_size is None else vocabulary_size
    return TokenEmbedding(size, config.hidden_dim, config.padding_id, name=name, dtype=dtype)


def make_tables(config: Seq2SeqConfig, dtype: Any) -> EmbeddingTables:
    """Returns the embeddings that a config's `share_embeddings` asks for."""
    if config.share_embeddings == "all":
        shared = make_embedding(config, dtype)
        return EmbeddingTables(shared, shared, shared)
    target_size = config.target_vocabulary_size
    source = make_embedding(config, dtype, "source_embedding")
    target = output = make_embedding(config, dtype, "target_embedding", target_size)
    if config.share_embeddings == "none":
        output = make_embedding(config, dtype, "output_embedding", target_size)
    return EmbeddingTables(source, target, output)


@keras.saving.register_keras_serializable(package="keras_transformer")
class StartTokenMask(keras.layers.Layer):
    """Embedded tokens as they are, with an implicit mask that does not hide the first token.

    For models that start a target with the padding id, as T5 and Marian do.

    Call arguments:
        inputs: `[B, T, M]`, with an implicit mask.
        position: Integer or scalar tensor. Position of the first input in its text. Defaults to 0.
        segments: Integers `[B, T]`, numbers of the documents packed in a row, 0 for padding. If
            given, they determine the mask.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=9, hidden_dim=4, padding_id=0)
    >>> outputs = StartTokenMask()(embedding(tf.constant([[0, 5, 6, 0]])))
    >>> outputs._keras_mask.numpy().tolist()
    [[True, True, True, False]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self,
        inputs: Any,
        position: int | tf.Tensor = 0,
        segments: Any = None,
        mask: Any = None,
        inputs_mask: Any = None,
    ) -> Any:
        mask = inputs_mask if mask is None else mask
        if segments is not None:
            mask = tf.not_equal(segments, 0)
        elif mask is not None:
            mask = tf.logical_or(mask, tf.range(tf.shape(mask)[1]) + position == 0)
        outputs = tf.identity(inputs)
        outputs._keras_mask = mask
        return outputs

    def compute_output_shape(self, inputs_shape: Shape, segments_shape: Any = None) -> Shape:
        return inputs_shape


class OutputHead:
    """The layers between a decoder's hidden states and the logits.

    Args:
        output: The `TokenEmbedding` whose reverse gives the logits.
        dtype: Dtype policy of the other layers.
        copies: Whether source tokens can be copied, see `PointerGenerator`.
        coverage_weight: Weight of the `CoverageLoss`; 0 for none.
    """

    def __init__(
        self,
        output: TokenEmbedding,
        dtype: Any = None,
        copies: bool = False,
        coverage_weight: float = 0.0,
    ) -> None:
        self.output: TokenEmbedding = output
        self.pointer: PointerGenerator | None = None
        self.coverage: CoverageLoss | None = None
        if copies:
            self.pointer = PointerGenerator(name="pointer", dtype=dtype)
        if coverage_weight:
            self.coverage = CoverageLoss(coverage_weight, name="coverage", dtype=dtype)

    @property
    def needs_attention(self) -> bool:
        """Returns whether the call needs the attention to the source."""
        return self.pointer is not None or self.coverage is not None

    def __call__(
        self,
        states: Any,
        attention: Any = None,
        is_token: Any = None,
        source: Any = None,
        state: dict[str, Any] | None = None,
        training: bool | None = None,
    ) -> Any:
        """Returns logits `[B, T, V]` of hidden states `[B, T, M]`.

        With `needs_attention`, `attention` `[B, T, S]` is that to the source; `is_token` `[B, T]`
        is False for padding of the target. `source` `[B, S]` are the ids to copy. In a decoding
        step, `state` has the entries of `initial_state`.
        """
        if self.coverage is not None:
            states = self.coverage(states, attention, is_token, training=training)
        if state is None:
            logits = self.output(states, reverse=True)
        else:
            logits = self.output.to_logits(states, state.get("kernels", {}).get("output"))
            source = state.get("source")
        return logits if self.pointer is None else self.pointer(states, logits, attention, source)

    def initial_state(
        self,
        batch_size: int | tf.Tensor,
        encoder_output: EncoderOutput | None,
        has_kernels: bool,
    ) -> dict[str, Any]:
        """Returns the head's part of a state: "source" and "kernels", as far as there are any.

        `has_kernels` is for searches that take many steps without XLA.
        """
        state: dict[str, Any] = {}
        if self.pointer is not None and encoder_output is not None:
            state["source"] = encoder_output.ids
        if has_kernels:
            state["kernels"] = {"output": self.output.output_kernel(batch_size)}
        return state


class TokenPredictor:
    """Next-token logits from token ids: embedding, decoder and output head.

    Called with symbolic tensors it builds the graph of a functional model; called with real ones it
    runs the same layers. So training, evaluation and decoding share one forward pass.

    Args:
        embedding: The `TokenEmbedding` of the decoder's inputs.
        decoder: A `Stack` with the call arguments and methods of `Decoder`.
        head: The `OutputHead`.
        special_ids: The special ids of the model.
    """

    def __init__(
        self, embedding: TokenEmbedding, decoder: Stack, head: OutputHead, special_ids: SpecialIds
    ) -> None:
        self.embedding: TokenEmbedding = embedding
        self.decoder: Any = decoder
        self.head: OutputHead = head
        self.start_mask: StartTokenMask | None = None
        if special_ids.start == special_ids.padding:
            self.start_mask = StartTokenMask(name="start_mask", dtype=embedding.dtype_policy)

    def __call__(
        self,
        ids: Any,
        encoder_outputs: Any = None,
        source: Any = None,
        state: dict[str, Any] | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        return_hidden_states: bool = False,
        segments: Any = None,
        **inputs: Any,
    ) -> Any:
        """Returns logits `[B, T, V]` of the token after each of `ids` `[B, T]`.

        Args:
            ids: The tokens so far; with a `state`, only the next ones.
            encoder_outputs: Output of the encoder, with an implicit mask, if there is one.
            source: Source ids `[B, S]`, for a head that copies them.
            state: State from the model's `initial_state` or from the previous call.
            training: Whether to apply dropout.
            return_attention_scores: Whether to return each layer's attention weights by name, too.
            return_hidden_states: Whether to return the hidden states `[B, T, M]`, not the logits.
            segments: Integers `[B, T]`, numbers of documents that are packed in a row.
            **inputs: Further call arguments of the decoder.

        Returns:
            Logits, or a tuple of them, the attention weights and the new state, as requested.
        """
        needs_attention = self.head.needs_attention and not return_hidden_states
        results = self.decoder(
            self._embed(ids, state, segments),
            encoder_outputs,
            state=state,
            return_attention_scores=return_attention_scores or needs_attention,
            training=training,
            **inputs,
        )
        outputs, *extras = as_tuple(results)
        scores: Any = extras.pop(0) if return_attention_scores or needs_attention else None
        if not return_hidden_states:
            attention = {}
            if needs_attention:
                attention["attention"] = mean_cross_attention(scores)
                attention["is_token"] = self._is_token(ids)
            outputs = self.head(outputs, source=source, state=state, training=training, **attention)
        if state is not None:
            position = state["position"] + tf.shape(ids)[1]
            state = {**state, "position": position, "layers": extras[0]}
        return with_extras(outputs, scores if return_attention_scores else None, state)

    def _embed(self, ids: Any, state: dict[str, Any] | None, segments: Any) -> Any:
        embedded = self.embedding(ids)
        if self.start_mask is None:
            return embedded
        position = 0 if state is None else state["position"]
        return self.start_mask(embedded, position=position, segments=segments)

    def _is_token(self, ids: Any) -> Any:
        """Returns a boolean mask `[B, T]` of a whole target, False for padding."""
        is_token = self.embedding.compute_mask(ids)
        if self.start_mask is None:
            return is_token
        is_first = ops.equal(ops.cumsum(ops.ones_like(ids), axis=1), 1)
        return ops.logical_or(is_token, is_first)


def mean_cross_attention(scores: list[dict[str, Any]]) -> Any:
    """Returns the attention to the source `[B, T, S]`, given the attention weights of all layers.

    It is the mean over the heads of the last layer but one, or of the only layer, which aligns best
    in Transformers (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
    Models"). In each layer's weights, "cross" is `[B, H, T, S]`.
    """
    if "cross" not in scores[-1]:
        raise UserError("A decoder without an encoder has no attention to a source.")
    cross = scores[-2:][0]["cross"]  # [B, H, T, S]
    return ops.mean(ops.cast(cross, "float32"), axis=1)
