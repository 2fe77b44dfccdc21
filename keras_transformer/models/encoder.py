"""The Transformer's encoder, and the base of all stacks of layers over embedded tokens."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from keras_transformer._utils.checks import (
    require_boolean,
    require_boolean_or_none,
    require_positive_integer,
    require_rank,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers import (
    EncoderBlock,
    PositionEncoding,
    TokenEmbedding,
    TokenTypeEmbedding,
    TreeDepthEncoding,
    TreePositions,
)
from keras_transformer.layers.multi_head_attention import symbolic_like
from keras_transformer.layers.positions import make_position_encoding
from keras_transformer.layers.residual import Dropout, make_normalization
from keras_transformer.layers.transformer_block import TransformerBlock


class EncoderOutput(NamedTuple):
    """The result of encoding a batch of sequences."""

    #: Hidden states `[B, S, M]`; for convolutional models, the keys of the attention.
    states: tf.Tensor
    #: Boolean `[B, S]`, False for padding.
    mask: tf.Tensor
    #: Int32 `[B, S]`, the tokens, for a decoder that copies them.
    ids: tf.Tensor | None = None
    #: `[B, S, M]`, the values of the attention where they are not the `states`.
    values: tf.Tensor | None = None


class Stack(ConfiguredLayer):
    """Base of encoders and decoders: positions and dropout for embedded tokens.

    A stack takes embedded tokens `[B, T, M]`, with an implicit mask. It has no embedding, because
    several stacks and the output layer of a model may share one.

    Args:
        num_layers: Integer. Number of layers.
        positions: String. Name of the position encoding, or None.
        max_length: Integer. Number of positions of an encoding that has a limit.
        dropout: Float. Dropout rate of the embeddings and of the outputs of layers.
        positions_options: Dictionary. Further arguments of the encoding. Defaults to none.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    #: The layers of the stack.
    blocks: Any

    def __init__(
        self,
        num_layers: int,
        positions: str | None,
        max_length: int,
        dropout: float,
        positions_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        # Keras would cast every argument to half precision, and states may contain sums.
        super().__init__(autocast=False, **kwargs)
        self.num_layers: int = require_positive_integer("num_layers", num_layers)
        self.max_length: int = require_positive_integer("max_length", max_length)
        self.dropout: float = require_rate("dropout", dropout)
        self.positions_options: dict[str, Any] = dict(positions_options or {})
        self.positions: PositionEncoding | None = None
        if positions is not None:
            self.positions = make_position_encoding(
                positions, max_length, self.positions_options, dtype=self.dtype_policy
            )
        self.dropout_layer: Dropout = Dropout(self.dropout, name="dropout", dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self._build_blocks(inputs_shape)

    def _build_blocks(self, inputs_shape: Shape, *further_shapes: Any) -> None:
        if self.positions is not None:
            self.positions.build(inputs_shape)
        for block in self.blocks:
            self._share_weights(block)
            block.build(inputs_shape, *further_shapes)

    def _share_weights(self, block: Any) -> None:
        """Gives a block, before it is built, the weights that it shares with the first one."""

    def add_positions(self, inputs: Any, **kwargs: Any) -> Any:
        """Returns inputs `[B, T, M]` with their positions added, see `PositionEncoding.call`."""
        return inputs if self.positions is None else self.positions(inputs, **kwargs)

    def require_space(self, ids: tf.Tensor, state: dict[str, Any]) -> tf.Tensor:
        """Returns token ids `[B, T]` after checking that a decoder's state has space for them."""
        return ids

    def compute_output_shape(self, inputs_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return inputs_shape

    def compute_output_spec(
        self,
        inputs: Any,
        encoder_outputs: Any = None,
        state: dict[str, Any] | None = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> Any:
        states = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return states
        return states, self._scores_spec(inputs, encoder_outputs)

    def _scores_spec(self, inputs: Any, encoder_outputs: Any) -> list[Any]:
        """Returns symbolic attention weights of each block, by default "cross" `[B, 1, T, S]`."""
        source = tf.nest.flatten(encoder_outputs)[0]
        shape = (inputs.shape[0], 1, inputs.shape[1], source.shape[1])
        return [{"cross": keras.KerasTensor(shape, dtype=self.compute_dtype)} for _ in self.blocks]

    def get_config(self) -> dict[str, Any]:
        positions = None if self.positions is None else self.positions.registered_name
        return {**super().get_config(), "positions": positions}


class TransformerStack(Stack):
    """Base of `Encoder` and `Decoder`: Transformer blocks, and normalizations around them.

    Args: those of `Encoder`; `block_settings` are further arguments of the blocks.
    """

    #: Class of the blocks.
    block_class: ClassVar[type[TransformerBlock]]

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_dim: int,
        *,
        positions: str | None = "sinusoidal",
        max_length: int = 1024,
        dropout: float = 0.0,
        positions_options: Mapping[str, Any] | None = None,
        normalize_embeddings: bool = False,
        final_normalization: bool | None = None,
        **block_settings: Any,
    ) -> None:
        layer_names = {"name", "dtype", "trainable"} & block_settings.keys()
        layer_settings = {name: block_settings.pop(name) for name in layer_names}
        limits = (positions, max_length)
        super().__init__(num_layers, *limits, dropout, positions_options, **layer_settings)
        self._block_settings: dict[str, Any] = {
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "dropout": dropout,
            "dtype": self.dtype_policy,
            **block_settings,
        }
        self.normalize_embeddings: bool = require_boolean(
            "normalize_embeddings", normalize_embeddings
        )
        self.final_normalization: bool | None = require_boolean_or_none(
            "final_normalization", final_normalization
        )
        self.embedding_norm: keras.layers.Layer | None = None
        if normalize_embeddings:
            self.embedding_norm = self._make_norm("embedding_norm")
        self.norm: keras.layers.Layer | None = None
        if final_normalization is None:  # in post-norm, the last block normalizes
            final_normalization = block_settings.get("normalize_first", True)
        if final_normalization:
            self.norm = self._make_norm("norm")

    def _make_norm(self, name: str) -> keras.layers.Layer:
        settings = self._block_settings
        return make_normalization(
            settings.get("normalization", "layer"),
            epsilon=settings.get("epsilon", 1e-6),
            name=name,
            dtype=self.dtype_policy,
        )

    def _share_weights(self, block: TransformerBlock) -> None:
        block.self_attention.mechanism.share_weights(self.blocks[0].self_attention.mechanism)

    def _make_blocks(self) -> None:
        self.blocks: Any = [
            self.block_class(**self._block_settings, name=f"block_{i}")
            for i in range(self.num_layers)
        ]

    def _build_blocks(self, inputs_shape: Shape, *further_shapes: Any) -> None:
        super()._build_blocks(inputs_shape, *further_shapes)
        for norm in (self.embedding_norm, self.norm):
            if norm is not None:
                norm.build(inputs_shape)

    def _prepare(self, embedded: Any, training: bool | None) -> Any:
        """Returns the inputs of the first block: embeddings with positions, after dropout."""
        if self.embedding_norm is not None:
            embedded = self.embedding_norm(embedded)
        return self.dropout_layer(embedded, training=training)

    def get_config(self) -> dict[str, Any]:
        block_config = self.blocks[0].get_config()
        for name in keras.layers.Layer().get_config():
            block_config.pop(name, None)
        return {**super().get_config(), **block_config}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(TransformerStack):
    """A stack of encoder blocks over embedded tokens.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.1.

    Masking: padding is hidden by the implicit Keras mask of `inputs`. The output has the same mask.

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
            added, as in BERT and BART. Defaults to False.
        final_normalization: Boolean. Whether the output of the last block is normalized. Defaults
            to `normalize_first`: in post-norm, the blocks normalize their outputs.
        tree_depths: Boolean. Whether to add a `TreeDepthEncoding`. Defaults to False.
        **kwargs: Further arguments of `EncoderBlock`, such as `attention`, `name` and `dtype`.

    Call arguments:
        inputs: Embedded tokens `[B, S, M]`.
        depths: Integers `[B, S]`, with `tree_depths`.
        relations: Integers `[B, S, S]`, for a mechanism that reads relations.
        return_attention_scores: Boolean. Whether to return as well a list of the attention weights
            `[B, H, S, S]` of each block. Defaults to False.
        mask: Boolean `[B, S]`, False for padding. Defaults to the implicit mask of `inputs`.
        inputs_mask: The same; Keras uses this name if there are several tensors.
        training: Boolean. Whether to apply dropout.

    Returns:
        Hidden states `[B, S, M]`, or a tuple of them and the attention weights.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = Encoder(num_layers=2, num_heads=4, intermediate_dim=256)(x)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    block_class = EncoderBlock

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_dim: int,
        *,
        tree_depths: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, num_heads, intermediate_dim, **kwargs)
        self.tree_depths: bool = require_boolean("tree_depths", tree_depths)
        self.depth_encoding: TreeDepthEncoding | None = None
        if tree_depths:
            self.depth_encoding = TreeDepthEncoding(name="depths", dtype=self.dtype_policy)
        self._make_blocks()

    def build(self, inputs_shape: Shape) -> None:
        if self.depth_encoding is not None:
            self.depth_encoding.build(inputs_shape)
        super().build(inputs_shape)

    def call(
        self,
        inputs: Any,
        depths: Any = None,
        relations: Any = None,
        return_attention_scores: bool = False,
        mask: Any = None,
        inputs_mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        states = self.add_positions(inputs)
        if self.depth_encoding is not None:
            states = self.depth_encoding(states, positions=depths)
        states, scores = self._prepare(states, training), []
        for block in self.blocks:
            states = block(
                states,
                return_attention_scores=return_attention_scores,
                relations=relations,
                mask=inputs_mask if mask is None else mask,
                training=training,
            )
            if return_attention_scores:
                states, block_scores = states
                scores.append(block_scores)
        if self.norm is not None:
            states = self.norm(states)
        return (states, scores) if return_attention_scores else states

    def _scores_spec(self, inputs: Any, encoder_outputs: Any) -> list[Any]:
        _, scores = self.blocks[0].compute_output_spec(inputs, return_attention_scores=True)
        return [symbolic_like(scores) for _ in self.blocks]


class SourceReader:
    """Hidden states from token ids: embedding, tree positions and encoder.

    Called with symbolic tensors it builds the graph of a functional model; called with real ones it
    runs the same layers.

    Args:
        embedding: The `TokenEmbedding` of the source.
        encoder: A `Stack` such as `Encoder`.
        tree_positions: The `TreePositions` of a model that reads trees. Defaults to None.
        token_types: The `TokenTypeEmbedding` of a model that reads pairs of texts. Defaults to
            None.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        encoder: Stack,
        tree_positions: TreePositions | None = None,
        token_types: TokenTypeEmbedding | None = None,
    ) -> None:
        self.embedding: TokenEmbedding = embedding
        self.encoder: Stack = encoder
        self.tree_positions: TreePositions | None = tree_positions
        self.token_types: TokenTypeEmbedding | None = token_types
        #: Names of the inputs other than the token ids.
        self.further_inputs: tuple[str, ...] = ()
        if tree_positions is not None:
            self.further_inputs = ("source_words", "source_heads")

    def __call__(
        self,
        source: Any,
        source_words: Any = None,
        source_heads: Any = None,
        training: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns the outputs of the encoder for token ids `[B, S]`, with an implicit mask.

        The arguments are those of `Seq2SeqModel.encode`, and call arguments of the encoder.
        """
        tree_inputs = self._tree_inputs(source_words, source_heads)
        embedded = self.embedding(source)
        if self.token_types is not None:
            embedded = self.token_types(embedded, source)
        return self.encoder(embedded, training=training, **tree_inputs, **kwargs)

    def encode(
        self, source: Any, source_words: Any = None, source_heads: Any = None
    ) -> EncoderOutput:
        """Returns the `EncoderOutput` of token ids `[B, S]`; see the call for the arguments."""
        source = require_rank("source", tf.convert_to_tensor(source), {2: "B, S"})
        outputs = self(source, source_words, source_heads, training=False)
        states, values = outputs if isinstance(outputs, tuple) else (outputs, None)
        return EncoderOutput(states, self.embedding.compute_mask(source), source, values)

    def _tree_inputs(self, words: Any, heads: Any) -> dict[str, Any]:
        """Returns the depths and distances of tokens in trees, as the encoder's call takes them."""
        given = [each is not None for each in (words, heads)]
        if self.tree_positions is None:
            if any(given):
                raise UserError(
                    "This model reads no trees, and got `source_words` or `source_heads`.",
                    fix="Leave them out, or set tree_positions='absolute', 'relative' or 'both'.",
                )
            return {}
        if not all(given):
            raise UserError(
                f"This model reads trees (tree_positions={self.tree_positions.kind!r}): it needs "
                "`source_words`, [B, S] like the source, and `source_heads`, [B, W]; got "
                f"{'one' if any(given) else 'none'} of them.",
                fix="Batch the data with `TreeBatches`.",
            )
        if not isinstance(words, keras.KerasTensor):
            words, heads = tf.cast(words, tf.int32), tf.cast(heads, tf.int32)
        return self.tree_positions(words, heads)
