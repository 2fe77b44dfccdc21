"""The Transformer's decoder."""

from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.types import Shape
from keras_transformer.layers import DecoderBlock
from keras_transformer.layers.call_helpers import as_tuple, symbolic_like, with_extras
from keras_transformer.models.encoder import EncoderOutput, TransformerStack


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(TransformerStack):
    """A stack of decoder blocks over embedded tokens.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1; without encoder outputs, the
    stack of a language model. The first call decides whether there is cross-attention.

    Masking: padding is hidden by the implicit Keras masks of `inputs` and `encoder_outputs`; the
    output carries that of `inputs`.

    Args:
        num_layers: Integer. Number of blocks.
        num_heads: Integer. H, number of attention heads.
        intermediate_dim: Integer. F, size of the feed-forward networks' inner layer.
        positions: String. Name of the position encoding in
            `keras_transformer.layers.POSITION_ENCODINGS`, or None. Defaults to "sinusoidal".
        max_length: Integer. Number of positions of an encoding that has a limit. Defaults to 1024.
        dropout: Float. Dropout rate of the inputs and of sublayers' outputs. Defaults to 0.
        name: String. Name of the layer.
        dtype: Dtype policy of the layer and all its parts.
        trainable: Boolean. Whether the weights are trained. Defaults to True.
        **block_settings: Further arguments of `DecoderBlock`, such as `cross_attention`.

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
        shapes = () if encoder_outputs_shape is None else (encoder_outputs_shape,)
        self._build_blocks(inputs_shape, *shapes)

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
        states = self.dropout_layer(states, training=training)
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

        - "layers": a `KVCache` for each block;
        - "memory": a `CrossAttentionCache` for each block, if there is an encoder.

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
