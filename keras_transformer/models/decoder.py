"""The Transformer's decoder, and the prediction of next tokens around any decoder."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers import CoverageLoss, DecoderBlock, PointerGenerator, TokenEmbedding
from keras_transformer.layers.multi_head_attention import as_tuple, symbolic_like, with_extras
from keras_transformer.models.encoder import EncoderOutput, Stack, TransformerStack
from keras_transformer.text import SpecialIds


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(TransformerStack):
    """A stack of decoder blocks over embedded tokens.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1; without encoder outputs, the
    stack of a language model. The first call decides whether there is cross-attention.

    Masking: padding is hidden by the implicit Keras masks of `inputs` and `encoder_outputs`. The
    output has the mask of `inputs`.

    Args:
        num_layers: Integer. Number of blocks.
        num_heads: Integer. H, number of attention heads.
        intermediate_dim: Integer. F, size of the feed-forward networks' inner layer.
        positions: String. Name of the position encoding in
            `keras_transformer.layers.POSITION_ENCODINGS`, or None. Defaults to "sinusoidal".
        max_length: Integer. Number of positions of an encoding that has a limit. Defaults to 1024.
        dropout: Float. Dropout rate of the inputs and of sublayers' outputs. Defaults to 0.
        positions_options: Dictionary. Further arguments of the encoding. Defaults to none.
        normalize_embeddings: Boolean. Whether the embeddings are normalized after positions are
            added, as in BART. Defaults to False.
        final_normalization: Boolean. Whether the output of the last block is normalized. Defaults
            to `normalize_first`: in post-norm, the blocks normalize their outputs.
        **kwargs: Further arguments of `DecoderBlock`, such as `attention`, `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, T, M]`; with a `state`, only the next ones.
        encoder_outputs: `[B, S, M]`, or None.
        state: Dictionary of the model's decoder state, see `initial_state`.
        return_attention_scores: Boolean. Whether to return as well a list of each block's attention
            weights by name, see `DecoderBlock`. Defaults to False.
        positions: Integers `[B, T]`, positions of tokens that are not counted from 0.
        attention_mask: Boolean `[B, T, T]`, True = attend, for self-attention.
        mask: Boolean `[B, T]`, False for padding. Defaults to the implicit mask of `inputs`.
        inputs_mask: The same; Keras uses this name if there are several tensors.
        encoder_outputs_mask: Boolean `[B, S]`. Defaults to the implicit mask of `encoder_outputs`.
        training: Boolean. Whether to apply dropout.

    Returns:
        Hidden states `[B, T, M]`, or a tuple of them, the attention weights and the new "layers" of
        the state, as far as requested.

    Example:

    >>> x, encoder_outputs = keras.Input((None, 64)), keras.Input((None, 64))
    >>> y = Decoder(num_layers=2, num_heads=4, intermediate_dim=256)(x, encoder_outputs)
    >>> keras.Model([x, encoder_outputs], y).output_shape
    (None, None, 64)
    """

    block_class = DecoderBlock

    def __init__(
        self, num_layers: int, num_heads: int, intermediate_dim: int, **kwargs: Any
    ) -> None:
        super().__init__(num_layers, num_heads, intermediate_dim, **kwargs)
        self._make_blocks()

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape | None = None) -> None:
        self._build_blocks(inputs_shape, encoder_outputs_shape)

    def call(
        self,
        inputs: Any,
        encoder_outputs: Any = None,
        state: dict[str, Any] | None = None,
        return_attention_scores: bool = False,
        positions: Any = None,
        attention_mask: Any = None,
        mask: Any = None,
        inputs_mask: Any = None,
        encoder_outputs_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        position = 0 if state is None else state["position"]
        states = self.add_positions(inputs, positions=positions, offset=position)
        states = self._prepare(states, training)
        caches: list[Any] = [None] * self.num_layers
        cross_attention_caches = caches
        if state is not None:
            caches = state["layers"]
            cross_attention_caches = state.get("memory", cross_attention_caches)
        scores, new_caches = [], []
        for block, cache, cross_attention_cache in zip(
            self.blocks, caches, cross_attention_caches, strict=True
        ):
            results = block(
                states,
                encoder_outputs,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                cache=cache,
                position=position,
                cross_attention_cache=cross_attention_cache,
                mask=inputs_mask if mask is None else mask,
                encoder_outputs_mask=encoder_outputs_mask,
                training=training,
            )
            states, *extras = as_tuple(results)
            if return_attention_scores:
                scores.append(extras.pop(0))
            new_caches += extras
        if self.norm is not None:
            states = self.norm(states)
        return with_extras(
            states,
            scores if return_attention_scores else None,
            None if state is None else new_caches,
        )

    def _scores_spec(self, inputs: Any, encoder_outputs: Any) -> list[Any]:
        _, scores = self.blocks[0].compute_output_spec(
            inputs, encoder_outputs, return_attention_scores=True
        )
        return [symbolic_like(scores) for _ in self.blocks]

    def initial_state(
        self,
        batch_size: int | tf.Tensor,
        max_length: int | tf.Tensor | None = None,
        encoder_output: EncoderOutput | None = None,
    ) -> dict[str, Any]:
        """Returns the decoder's part of a state before the first token.

        It has "layers", a `KVCache` for each block, and with an encoder "memory", a
        `CrossAttentionCache` for each block.

        Args:
            batch_size: Integer or scalar tensor. B.
            max_length: Integer or scalar tensor. Space in fixed caches; None for growing ones.
            encoder_output: The `EncoderOutput` to attend to, if there is an encoder.
        """
        state: dict[str, Any] = {
            "layers": [block.initial_cache(batch_size, max_length) for block in self.blocks]
        }
        if encoder_output is not None:
            state["memory"] = [
                block.cross_attention_cache(encoder_output.states, encoder_output.mask)
                for block in self.blocks
            ]
        return state

    def require_space(self, ids: tf.Tensor, state: dict[str, Any]) -> tf.Tensor:
        return state["layers"][0].require_space(tf.shape(ids)[1], ids)


@keras.saving.register_keras_serializable(package="keras_transformer")
class StartTokenMask(keras.layers.Layer):
    """Returns embedded tokens unchanged, with an implicit mask that does not hide the first token.

    The layer is for models that start a target with the padding id, as T5 and Marian do. `position`
    is the position of the first input in its text. If the numbers of packed documents, `segments`
    `[B, T]`, are given, they determine the mask; they are 0 for padding.
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


class TokenPredictor:
    """Next-token logits from token ids: embedding, decoder and output layers.

    Called with symbolic tensors it builds the graph of a functional model; called with other
    tensors it runs the same layers. So training, evaluation and decoding share one forward pass.

    Args:
        embedding: The `TokenEmbedding` of the decoder's inputs.
        decoder: A `Stack` with the call arguments and methods of `Decoder`.
        output: The `TokenEmbedding` whose reverse gives the logits.
        special_ids: The special ids of the model.
        pointer: The `PointerGenerator` of a model that copies source tokens. Defaults to None.
        coverage: The `CoverageLoss`, if there is one. Defaults to None.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        decoder: Stack,
        output: TokenEmbedding,
        special_ids: SpecialIds,
        pointer: PointerGenerator | None = None,
        coverage: CoverageLoss | None = None,
    ) -> None:
        self.embedding: TokenEmbedding = embedding
        self.decoder: Any = decoder
        self.output: TokenEmbedding = output
        self.pointer: PointerGenerator | None = pointer
        self.coverage: CoverageLoss | None = coverage
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
            source: Source ids `[B, S]`, for a model that copies them.
            state: State from the model's `initial_state` or from the previous call.
            training: Whether to apply dropout.
            return_attention_scores: Whether to return each layer's attention weights by name, too.
            return_hidden_states: Whether to return the hidden states `[B, T, M]`, not the logits.
            segments: Integers `[B, T]`, numbers of documents that are packed in a row.
            **inputs: Further call arguments of the decoder.

        Returns:
            Logits, or a tuple of them, the attention weights and the new state, as requested.
        """
        reads_attention = self.pointer is not None or self.coverage is not None
        needs_attention = reads_attention and not return_hidden_states
        embedded = self.embedding(ids)
        if self.start_mask is not None:
            position = 0 if state is None else state["position"]
            embedded = self.start_mask(embedded, position=position, segments=segments)
        results = self.decoder(
            embedded,
            encoder_outputs,
            state=state,
            return_attention_scores=return_attention_scores or needs_attention,
            training=training,
            **inputs,
        )
        outputs, *extras = as_tuple(results)
        scores: Any = extras.pop(0) if return_attention_scores or needs_attention else None
        if not return_hidden_states:
            attention = mean_cross_attention(scores) if needs_attention else None
            if self.coverage is not None:
                outputs = self.coverage(outputs, attention, self._is_token(ids), training=training)
            outputs = self._logits(outputs, attention, source, state)
        if state is not None:
            position = state["position"] + tf.shape(ids)[1]
            state = {**state, "position": position, "layers": extras[0]}
        return with_extras(outputs, scores if return_attention_scores else None, state)

    def _logits(self, states: Any, attention: Any, source: Any, state: Any) -> Any:
        """Returns logits `[B, T, V]` of hidden states; `attention` `[B, T, S]` is to the source."""
        if state is None:
            logits = self.output(states, reverse=True)
        else:
            logits = self.output.to_logits(states, state.get("kernels", {}).get("output"))
            source = state.get("source")
        return logits if self.pointer is None else self.pointer(states, logits, attention, source)

    def _is_token(self, ids: Any) -> Any:
        """Returns a boolean mask `[B, T]` of a whole target, False for padding."""
        is_token = self.embedding.compute_mask(ids)
        if self.start_mask is None:
            return is_token
        is_first = ops.equal(ops.cumsum(ops.ones_like(ids), axis=1), 1)
        return ops.logical_or(is_token, is_first)


def mean_cross_attention(scores: list[dict[str, Any]]) -> Any:
    """Returns the attention to the source `[B, T, S]`, given the attention weights of all layers.

    The result is the mean over the heads of the penultimate layer (or of the only one), which
    aligns best in Transformers (Garg et al. 2019, "Jointly Learning to Align and Translate with
    Transformer Models"). In each layer's weights, "cross" is `[B, H, T, S]`.
    """
    if "cross" not in scores[-1]:
        raise UserError("A decoder without an encoder has no attention to a source.")
    cross = scores[-2:][0]["cross"]  # [B, H, T, S]
    return ops.mean(ops.cast(cross, "float32"), axis=1)
