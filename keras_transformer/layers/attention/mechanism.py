"""Base classes and registry of the attention mechanisms."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_choice, require_rate
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.registry import Kind, register
from keras_transformer._utils.types import Shape
from keras_transformer.layers.residual import Dropout

#: An integer or a scalar tensor.
Integer: TypeAlias = int | tf.Tensor

#: The registered attention mechanisms by name.
MECHANISMS: dict[str, type["AttentionMechanism"]] = {}

# Added to the score of a masked key: finite, so that a query without visible keys gives no NaN, and
# so low that its exp() is exactly 0 compared with any visible score.
MASKED_SCORE = -1e9

# Uses that a mechanism may not support (`supports_causal` and so on), for error messages.
_USES = {
    "causal": "hide later positions from a query (causal attention)",
    "cache": "decode step by step with a KV cache",
    "cross": "attend from one sequence to another (cross-attention)",
    "packing": "attend within documents that are packed into one row",
    "query_masks": "take a mask that differs between queries, only a key mask [B, 1, 1, S]",
    "coverage": "use coverage, which is added to the keys: it does not read keys",
    "relations": "read relations between tokens, such as distances in a tree",
}


def register_mechanism(name: str) -> Callable[[Kind], Kind]:
    """Returns a decorator that registers an `AttentionMechanism` by `name`."""
    return register(MECHANISMS, name)


class AttentionInputs(NamedTuple):
    """Call arguments of an `AttentionMechanism`, whose docstring describes them."""

    query: tf.Tensor
    key: Any
    value: tf.Tensor
    attention_mask: tf.Tensor | None
    query_offset: Integer
    use_causal_mask: bool
    return_attention_scores: bool
    training: bool | None
    relations: tf.Tensor | None


class AttentionMechanism(ConfiguredLayer):
    """Base of the attention mechanisms: from queries, keys and values to a context.

    A mechanism is one file in this folder. It registers a name, declares in class attributes what
    it supports, owns its weights, and implements `compute_context`. A mechanism that scores every
    query against every key derives from `SoftmaxAttention` and implements only `compute_scores`.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Projected queries `[B, H, T, D]`.
        key: Projected keys `[B, H, S, D]`, or the result of `precompute_keys`.
        value: Projected values `[B, H, S, D]`; their size may differ from that of the keys.
        attention_mask: Boolean, True = attend, of rank 4 and broadcastable to `[B, H, T, S]`. A
            key mask is `[B, 1, 1, S]`, so that no mechanism has to store T·S values. Optional.
        query_offset: Position of the first query among the keys, as in a cached step. Default 0.
        use_causal_mask: Boolean. Whether to hide later keys from a query. Default False.
        return_attention_scores: Boolean. Whether to return the weights as well. Default False.
        training: Boolean. Whether dropout is applied.
        relations: Integers `[B, T, S]`, such as distances in a tree, if they are supported.

    Returns:
        The context `[B, H, T, D]`; with `return_attention_scores`, a tuple of it and the attention
        weights `[B, H, T, S]`. Both are zero for a query without any visible key.
    """

    #: Name by which the mechanism is registered.
    registered_name: ClassVar[str | None] = None
    #: Whether `use_causal_mask` is possible. Decoders need it.
    supports_causal: ClassVar[bool] = True
    #: Whether keys and values can come from a KV cache. Step-by-step decoding needs it.
    supports_cache: ClassVar[bool] = True
    #: Whether queries and keys can belong to different sequences.
    supports_cross: ClassVar[bool] = True
    #: Whether a row can hold several documents, each with positions from 0.
    supports_packing: ClassVar[bool] = True
    #: Whether the mask can differ between queries. If not, it must be a key mask `[B, 1, 1, S]`.
    supports_query_masks: ClassVar[bool] = True
    #: Whether coverage can be added to the keys.
    supports_coverage: ClassVar[bool] = True
    #: Whether `call` takes `relations`.
    supports_relations: ClassVar[bool] = False
    #: Whether the mechanism encodes positions, so that the embeddings need no position encoding.
    encodes_positions: ClassVar[bool] = False
    #: Whether the number of keys is limited by a constructor argument `max_length`.
    has_max_length: ClassVar[bool] = False
    #: Whether the mechanism reads keys. If not, no keys are projected and `key` is the values.
    reads_keys: ClassVar[bool] = True
    #: Whether the last query sees all keys even with a causal mask, so that a step needs no mask.
    last_query_sees_all_keys: ClassVar[bool] = True

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dropout: float = require_rate("dropout", dropout)
        self.dropout_layer: Dropout = Dropout(self.dropout, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        """Creates the weights; here there are none."""

    def share_weights(self, other: "AttentionMechanism") -> None:
        """Takes the weights that all blocks of a stack share; here there are none.

        A stack calls this method before `build`. `other` is the mechanism of its first block, which
        is this mechanism, not yet built, or another one that is built.
        """

    def add_positions(
        self, query: tf.Tensor, key: tf.Tensor, offset: Integer
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns queries and keys `[B, H, T, D]` with positions encoded; here they are unchanged.

        This method is called before keys are stored in the KV cache. `offset` is the position of
        the first query and key.
        """
        return query, key

    def precompute_keys(self, key: tf.Tensor) -> Any:
        """Returns the part of the scores that depends on the keys alone; here the keys themselves.

        A recurrent decoder calls this method once for all queries. `call` takes the result, a nest
        of tensors `[B, H, S, …]`, in place of the keys. The result must be linear in the keys, so
        that coverage can be added.
        """
        return key

    def call(
        self,
        query: tf.Tensor,
        key: Any,
        value: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        query_offset: Integer = 0,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        relations: tf.Tensor | None = None,
    ) -> Any:
        self.require_support(
            causal=use_causal_mask,
            query_masks=is_query_mask(attention_mask),
            relations=relations is not None,
        )
        results = self.compute_context(
            AttentionInputs(
                query,
                key,
                value,
                attention_mask,
                query_offset,
                use_causal_mask,
                return_attention_scores,
                training,
                relations,
            )
        )
        return results if return_attention_scores else results[0]

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns the context `[B, H, T, D]` and the attention weights `[B, H, T, S]`.

        The weights may be None if `inputs.return_attention_scores` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `compute_context`.")

    def attend(
        self, scores: tf.Tensor, mask: tf.Tensor, value: tf.Tensor, training: bool | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the context and the weights of scores `[…, T, S]` and values `[…, S, D]`."""
        scores = at_least_float32(scores)
        scores = scores + ops.where(mask, ops.cast(0, scores.dtype), MASKED_SCORE)
        sees_any = ops.cast(ops.any(mask, axis=-1, keepdims=True), scores.dtype)
        weights = ops.cast(tf.nn.softmax(scores) * sees_any, self.compute_dtype)
        return tf.matmul(self.dropout_layer(weights, training=training), value), weights

    def require_support(self, **uses: bool) -> None:
        """Raises a `UserError`, which names other mechanisms, if a required use is not supported.

        Args:
            **uses: Whether each use is required: `causal`, `cache`, `cross`, `packing`,
                `query_masks`, `coverage`, `relations`.
        """
        required = [use for use, is_required in uses.items() if is_required]
        missing = [use for use in required if not getattr(self, f"supports_{use}")]
        if missing:
            able = [
                repr(name)
                for name, kind in sorted(MECHANISMS.items())
                if all(getattr(kind, f"supports_{each}") for each in required)
            ]
            name = self.registered_name or type(self).__name__
            problem = f"The attention mechanism {name!r} cannot {_USES[missing[0]]}."
            raise UserError(problem, fix=f"Use one of {', '.join(able)}.")

    def compute_output_spec(
        self, query: Any, key: Any, value: Any, return_attention_scores: bool = False, **kwargs: Any
    ) -> Any:
        shapes = [(*query.shape[:3], size) for size in (value.shape[-1], key.shape[2])]
        context, weights = (keras.KerasTensor(each, dtype=self.compute_dtype) for each in shapes)
        return (context, weights) if return_attention_scores else context


class SoftmaxAttention(AttentionMechanism):
    """Base of the dense mechanisms: scores, a masked softmax, a weighted sum of the values.

    A subclass implements `compute_scores`. It may override `compute_weights`, to normalize scores
    differently, `compute_biases`, to add something to the scores that depends on the other
    arguments of the call, `combine_values`, to add something to the values, and
    `look_up_relations`, whose results `compute_scores` and `combine_values` receive as further
    arguments.

    Args: those of `AttentionMechanism`.
    """

    def look_up_relations(
        self, query: tf.Tensor, key: tf.Tensor, relations: tf.Tensor | None
    ) -> dict[str, Any]:
        """Returns what scores and values need of the relations `[B, T, S]`; here nothing."""
        return {}

    def compute_scores(self, query: tf.Tensor, key: Any, query_offset: Integer) -> tf.Tensor:
        """Returns the scores `[B, H, T, S]` of queries `[B, H, T, D]` and keys `[B, H, S, D]`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `compute_scores`.")

    def compute_biases(self, inputs: AttentionInputs) -> tf.Tensor | None:
        """Returns what is added to the scores, broadcastable to `[B, H, T, S]`; here None."""
        return None

    def compute_weights(self, scores: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights `[B, H, T, S]` of scores; masked scores are very low."""
        return ops.cast(tf.nn.softmax(scores), self.compute_dtype)

    def combine_values(
        self, weights: tf.Tensor, value: tf.Tensor, query_offset: Integer
    ) -> tf.Tensor:
        """Returns the context `[B, H, T, D]` of weights `[B, H, T, S]`, values `[B, H, S, D]`."""
        return tf.matmul(weights, value)

    def compute_context(self, inputs: AttentionInputs) -> tuple[tf.Tensor, tf.Tensor]:
        query, key, offset = inputs.query, inputs.key, inputs.query_offset
        extra = self.look_up_relations(query, key, inputs.relations)
        scores = at_least_float32(self.compute_scores(query, key, offset, **extra))
        if (biases := self.compute_biases(inputs)) is not None:
            scores = scores + ops.cast(biases, scores.dtype)
        mask = inputs.attention_mask
        if inputs.use_causal_mask:
            is_past = relative_positions(query, key, offset) <= 0
            mask = is_past if mask is None else ops.logical_and(mask, is_past)
        if mask is not None:
            scores = scores + ops.where(mask, ops.cast(0, scores.dtype), MASKED_SCORE)
        weights = self.compute_weights(scores)
        dropped = self.dropout_layer(weights, training=inputs.training)
        context = self.combine_values(dropped, inputs.value, offset, **extra)  # [B, H, T, D]
        if inputs.attention_mask is not None:  # with a causal mask alone, every query sees a key
            sees_any = ops.cast(ops.any(mask, axis=-1, keepdims=True), self.compute_dtype)
            context, weights = context * sees_any, weights * sees_any
        return context, weights


def make_mechanism(
    mechanism: str | dict[str, Any] | AttentionMechanism, dropout: float = 0.0, **kwargs: Any
) -> AttentionMechanism:
    """Returns a new mechanism, by registered name or with the config of an instance.

    Args:
        mechanism: A registered name, or an `AttentionMechanism` or its serialized form, whose
            config is cloned, but not its weights.
        dropout: Dropout rate of the attention weights; 0 keeps the rate of an instance.
        **kwargs: Arguments of the new layer, such as `name` and `dtype`.
    """
    if isinstance(mechanism, dict):
        mechanism = keras.saving.deserialize_keras_object(mechanism)
    if isinstance(mechanism, AttentionMechanism):
        config = mechanism.get_config()
        config["dropout"] = dropout or config["dropout"]
        return type(mechanism).from_config({**config, **kwargs})
    kind = MECHANISMS[require_choice("mechanism", mechanism, MECHANISMS)]
    return kind(dropout=dropout, **kwargs)


def serialize_settings(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the serialized form of a mechanism or another layer, without the build config."""
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


def is_query_mask(attention_mask: Any) -> bool:
    """Returns whether a mask may differ between queries: the size of their axis may exceed 1."""
    return attention_mask is not None and attention_mask.shape[-2] != 1


def relative_positions(query: Any, key: Any, query_offset: Integer) -> tf.Tensor:
    """Returns the position of each key `[B, H, S, …]` minus that of each query, int32 `[T, S]`."""
    queries = query_offset + ops.arange(ops.shape(query)[2], dtype="int32")
    keys = ops.arange(ops.shape(key)[2], dtype="int32")
    return ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)


def at_least_float32(x: tf.Tensor) -> tf.Tensor:
    """Returns the tensor in float32 or float64: half precision is too imprecise for a softmax."""
    return ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


def split_blocks(x: tf.Tensor, num_blocks: Integer, size: Integer) -> tf.Tensor:
    """Returns `[B, H, T, D]` as `[B, H, num_blocks, size, D]`, padded with zeros at the end."""
    batch_size, num_heads, length, last = ops.shape(x)
    padded = tf.pad(x, [[0, 0], [0, 0], [0, num_blocks * size - length], [0, 0]])
    return ops.reshape(padded, (batch_size, num_heads, num_blocks, size, last))


def join_blocks(x: tf.Tensor) -> tf.Tensor:
    """Returns `[B, H, N, b, D]` as `[B, H, N·b, D]`."""
    batch_size, num_heads, num_blocks, size, last = ops.shape(x)
    return ops.reshape(x, (batch_size, num_heads, num_blocks * size, last))


def require_length(length: Integer, maximum: int, problem: str, fix: str) -> Any:
    """Returns a length that is at most `maximum`; a tensor is checked when the graph runs."""
    if isinstance(length, int):
        if length > maximum:
            raise UserError(f"{problem}: {length}.", fix=fix)
        return length
    check = tf.debugging.Assert(length <= maximum, [f"{problem}. {fix}", length])
    with tf.control_dependencies([check]):
        return tf.identity(length)
