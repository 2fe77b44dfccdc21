"""Multi-head attention with a replaceable mechanism, as a drop-in for Keras' own layer."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_boolean_or_none,
    require_broadcastable,
    require_choice,
    require_divisible,
    require_known_dim,
    require_positive,
    require_positive_integer,
    require_rank,
    require_rate,
)
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    AttentionMechanism,
    Integer,
    is_query_mask,
    make_mechanism,
    serialize_settings,
)
from keras_transformer.layers.kv_cache import (
    CrossAttentionCache,
    FixedKVCache,
    GrowingKVCache,
    KVCache,
    shape_of,
)
from keras_transformer.layers.residual import NORMALIZATIONS, make_normalization


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(ConfiguredLayer):
    """Multi-head self-attention or cross-attention with any registered mechanism and a KV cache.

    The arguments of `keras.layers.MultiHeadAttention` have the same meaning and give the same
    results. A call without `value` is self-attention. Vaswani et al. 2017, "Attention Is All You
    Need", section 3.2.2; with fewer heads for keys and values, Ainslie et al. 2023, "GQA: Training
    Generalized Multi-Query Transformer Models".

    Masking: keys are hidden where the mask of `value` or of `key` is False (in self-attention, the
    mask of `query`), and where `attention_mask` is. Implicit Keras masks are used where no mask is
    given. The output has the mask of `query`; the outputs of masked queries are meaningless.

    Args:
        num_heads: Integer. H, number of attention heads.
        key_dim: Integer. D, size of each head for queries and keys. Defaults to M / H.
        value_dim: Integer. Size of each head for values. Defaults to the size for keys.
        dropout: Float. Dropout rate of the attention weights. Defaults to 0.
        use_bias: Boolean. Whether the projections have biases. Defaults to True.
        output_shape: Integer or tuple of integers. Shape of an output vector. Defaults to M.
        num_key_value_heads: Integer. K, number of heads of keys and values. Defaults to H.
        use_output_bias: Boolean. Whether the output projection has a bias. Defaults to `use_bias`.
        query_key_normalization: String. "layer" or "rms": normalization of each projected query and
            key over the D dimensions of its head, before positions are added, with weights that the
            heads share (Henry et al. 2020, "Query-Key Normalization for Transformers"; "rms" as in
            Qwen3). Defaults to None.
        epsilon: Float. Added to the variance in this normalization. Defaults to 1e-6.
        mechanism: A name in `keras_transformer.layers.MECHANISMS`, or an `AttentionMechanism` whose
            settings are copied. Defaults to "scaled_dot_product".
        kernel_initializer: Initializer of the projections' kernels. Defaults to "glorot_uniform".
        bias_initializer: Initializer of the projections' biases. Defaults to "zeros".
        kernel_regularizer: Regularizer of the projections' kernels. Defaults to None.
        bias_regularizer: Regularizer of the projections' biases. Defaults to None.
        kernel_constraint: Constraint of the projections' kernels `[M, H·D]`. Defaults to None.
        bias_constraint: Constraint of the projections' biases. Defaults to None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: `[B, T, M]`.
        value: `[B, S, N]`, the sequence to attend to. Defaults to `query` (self-attention).
        key: `[B, S, N]`. Defaults to `value`.
        query_mask: Boolean `[B, T]`, False for padding.
        value_mask: Boolean `[B, S]`, False for padding.
        key_mask: Boolean `[B, S]`, False for padding.
        attention_mask: Boolean, True = attend: `[B, T, S]`, or `[B, H, T, S]`, where any axis but
            the last may have size 1.
        return_attention_scores: Boolean. Whether to return the attention weights (before dropout),
            `[B, H, T, S]`, as well. Defaults to False.
        training: Boolean. Whether to apply dropout.
        use_causal_mask: Boolean. Whether to hide later keys from a query. Defaults to False.
        cache: `KVCache` from `initial_cache` or from the previous call, for self-attention step by
            step. The updated cache is returned last.
        position: Integer or scalar tensor. Position of the first query in its text. Defaults to the
            length of the cache, or 0.
        cross_attention_cache: `CrossAttentionCache` from the method of this name, in place of
            `value`. `query` may have N consecutive rows, or hypotheses, for each of its rows.
        relations: Integers `[B, T, S]`, for a mechanism that reads relations, such as "structural".
        mask: Boolean `[B, T]`. Keras sets it to the implicit mask of `query`.

    Returns:
        `[B, T, M]`, or a tuple of it, the weights and the updated cache, as far as requested.

    >>> x = keras.Input((None, 64))
    >>> y = MultiHeadAttention(num_heads=4, mechanism="rotary")(x, use_causal_mask=True)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        *,
        num_key_value_heads: int | None = None,
        use_output_bias: bool | None = None,
        query_key_normalization: str | None = None,
        epsilon: float = 1e-6,
        mechanism: str | AttentionMechanism | dict[str, Any] = "scaled_dot_product",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads: int = require_positive_integer("num_heads", num_heads)
        self.key_dim: int | None = _positive_or_none("key_dim", key_dim)
        self.value_dim: int | None = _positive_or_none("value_dim", value_dim)
        self.num_key_value_heads: int | None = _positive_or_none(
            "num_key_value_heads", num_key_value_heads
        )
        self._key_value_heads: int = self.num_key_value_heads or self.num_heads
        self._queries_per_key: int = require_divisible(
            "num_heads", self.num_heads, "num_key_value_heads", self._key_value_heads
        )
        self.dropout: float = require_rate("dropout", dropout)
        self.mechanism: AttentionMechanism = make_mechanism(
            mechanism, self.dropout, name="mechanism", dtype=self.dtype_policy
        )
        self.use_bias: bool = require_boolean("use_bias", use_bias)
        self.use_output_bias: bool | None = require_boolean_or_none(
            "use_output_bias", use_output_bias
        )
        self.query_key_normalization: str | None = query_key_normalization
        self.epsilon: float = require_positive("epsilon", epsilon)
        self.query_norm: keras.layers.Layer | None = None
        self.key_norm: keras.layers.Layer | None = None
        if query_key_normalization is not None:
            self.query_norm = self._make_norm("query_norm")
            if self.mechanism.reads_keys:
                self.key_norm = self._make_norm("key_norm")
        # Private, as in Keras: a public `output_shape` would conflict with that of a model.
        self._output_shape: tuple[int, ...] | None = _as_shape("output_shape", output_shape)
        self.kernel_initializer: Any = keras.initializers.get(kernel_initializer)
        self.bias_initializer: Any = keras.initializers.get(bias_initializer)
        self.kernel_regularizer: Any = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer: Any = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint: Any = keras.constraints.get(kernel_constraint)
        self.bias_constraint: Any = keras.constraints.get(bias_constraint)
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        value_shape = value_shape or query_shape
        hidden_dim = require_known_dim("query", query_shape)
        value_inputs = require_known_dim("value", value_shape)
        key_inputs = require_known_dim("key", key_shape or value_shape)
        key_dim = self.key_dim or require_divisible(
            "hidden_dim", hidden_dim, "num_heads", self.num_heads
        )
        value_dim = self.value_dim or key_dim
        self._head_dims = (key_dim, value_dim)
        self._output_dims = (hidden_dim,) if self._output_shape is None else self._output_shape
        heads, key_value_heads = self.num_heads, self._key_value_heads
        make = self._make_projection
        self.query_projection: keras.layers.Dense = make("query", hidden_dim, heads * key_dim)
        self.key_projection: keras.layers.Dense | None = None
        if self.mechanism.reads_keys:
            self.key_projection = make("key", key_inputs, key_value_heads * key_dim)
        units, outputs = key_value_heads * value_dim, math.prod(self._output_dims)
        self.value_projection: keras.layers.Dense = make("value", value_inputs, units)
        self.output_projection: keras.layers.Dense = make(
            "output", heads * value_dim, outputs, self.use_output_bias
        )
        key_shape = (None, self.num_heads, None, key_dim)
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.build(key_shape)
        self.mechanism.build(key_shape, key_shape, (*key_shape[:3], value_dim))

    def _make_norm(self, name: str) -> keras.layers.Layer:
        kind = require_choice(
            "query_key_normalization", self.query_key_normalization, NORMALIZATIONS
        )
        return make_normalization(kind, epsilon=self.epsilon, name=name, dtype=self.dtype_policy)

    def _make_projection(
        self, name: str, inputs: int, units: int, use_bias: bool | None = None
    ) -> keras.layers.Dense:
        projection = keras.layers.Dense(
            units,
            use_bias=self.use_bias if use_bias is None else use_bias,
            # Cloned: an initializer with a seed would give the same numbers to all four.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, inputs))
        return projection

    def __call__(
        self, query: Any, value: Any = None, key: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        # Self-attention is written `layer(x, x)` in Keras. Mechanisms that encode the distance of
        # query and key require that both are one sequence. An explicit `query_mask` hides keys in
        # self-attention only; a call with it is not changed.
        query_mask = args[0] if args else kwargs.get("query_mask")
        if value is query and (key is None or key is query) and query_mask is None:
            value = key = None
        return super().__call__(query, value, key, *args, **kwargs)

    def call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        *,
        cache: KVCache | None = None,
        position: Integer | None = None,
        cross_attention_cache: CrossAttentionCache | None = None,
        relations: Any = None,
        mask: Any = None,
    ) -> Any:
        self._require_valid_call(
            query,
            value,
            key,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            cache=cache,
            cross_attention_cache=cross_attention_cache,
            relations=relations,
        )
        shape = shape_of(query)
        key_mask = _merge_masks(value_mask, key_mask)
        query_offset: Integer = 0
        if cross_attention_cache is not None:
            query = _rows_to_queries(query, cross_attention_cache)
        queries = self._project(self.query_projection, query, self.num_heads)  # [B, H, T, D]
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        if cross_attention_cache is not None:
            keys, values, key_mask = cross_attention_cache
        elif value is not None:
            keys, values = self._project_keys_and_values(value, value if key is None else key)
        else:
            keys, values = self._project_keys_and_values(query, query)
            if key_mask is None:
                key_mask = query_mask if mask is None else mask
            if cache is not None:
                query_offset = cache.length
            queries, keys = self.mechanism.add_positions(
                queries, keys, query_offset if position is None else position
            )
            if cache is not None:
                cache = cache.append(keys, values, key_mask)
                keys, values, key_mask = cache.key, cache.value, cache.mask
                if query.shape[1] == 1 and self.mechanism.last_query_sees_all_keys:
                    use_causal_mask = False
        results = self.mechanism(
            queries,
            self._repeat_heads(keys),
            self._repeat_heads(values),
            attention_mask=_combine_masks(attention_mask, key_mask),
            query_offset=query_offset,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            relations=relations,
        )
        context, *scores = results if return_attention_scores else (results,)
        outputs = self._join_heads(context)
        if cross_attention_cache is not None:
            outputs = ops.reshape(outputs, (*shape[:2], *self._output_dims))
            scores = [_queries_to_rows(each, shape) for each in scores]
        return with_extras(outputs, *scores, cache)

    def initial_cache(self, batch_size: Integer, max_length: Integer | None = None) -> KVCache:
        """Returns an empty KV cache for self-attention step by step.

        Args:
            batch_size: Integer or scalar tensor. B.
            max_length: Integer or scalar tensor. Number of tokens that a `FixedKVCache` has space
                for. Defaults to None: a `GrowingKVCache`.
        """
        self._require_built()
        sizes, heads = (*self._head_dims, self.compute_dtype), self._key_value_heads
        if max_length is None:
            return GrowingKVCache.empty(batch_size, heads, *sizes)
        return FixedKVCache.empty(batch_size, heads, max_length, *sizes)

    def cross_attention_cache(
        self, value: Any, value_mask: Any = None, key: Any = None, key_mask: Any = None
    ) -> CrossAttentionCache:
        """Returns keys, values and mask for all steps; the arguments are those of the call."""
        self._require_built()
        mask: Any = _merge_masks(value_mask, key_mask)
        if mask is None:
            mask = ops.ones(shape_of(value)[:2], dtype="bool")
        keys, values = self._project_keys_and_values(value, value if key is None else key)
        return CrossAttentionCache(keys, values, mask)

    def _require_built(self) -> None:
        if not self.built:
            raise UserError(
                f"MultiHeadAttention '{self.name}' has not been built, so its shapes are unknown.",
                fix="Call it once, or build((None, None, hidden_dim)).",
            )

    def _project_keys_and_values(self, value: Any, key: Any) -> tuple[Any, Any]:
        """Returns keys and values `[B, K, S, D]` of sequences `[B, S, N]`."""
        values = self._project(self.value_projection, value, self._key_value_heads)
        if self.key_projection is None:
            return values, values
        keys = self._project(self.key_projection, key, self._key_value_heads)
        return keys if self.key_norm is None else self.key_norm(keys), values

    @staticmethod
    def _project(projection: keras.layers.Dense, inputs: Any, num_heads: int) -> Any:
        """Projects `[B, T, M]` to heads `[B, H, T, D]`."""
        _, length, hidden_dim = inputs.shape
        # Two dimensions, because the gradient of a three-dimensional product is built row by row.
        projected = projection(ops.reshape(inputs, (-1, hidden_dim)))  # [B·T, H·D]
        # With a known length the batch size follows: no arithmetic with shapes at each step.
        rows = (-1, length) if length else shape_of(inputs)[:2]
        heads = ops.reshape(projected, (*rows, num_heads, projection.units // num_heads))
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join_heads(self, context: Any) -> Any:
        """Projects heads `[B, H, T, D]` to outputs `[B, T, M]`."""
        _, num_heads, length, value_dim = context.shape
        flat = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, num_heads * value_dim))
        rows = (-1, length) if length else (shape_of(context)[0], shape_of(context)[2])
        return ops.reshape(self.output_projection(flat), (*rows, *self._output_dims))

    def _repeat_heads(self, heads: Any) -> Any:
        """Repeats keys or values `[B, K, S, D]` for the heads of queries that share them."""
        repeats = self._queries_per_key
        return heads if repeats == 1 else ops.repeat(heads, repeats, axis=1)

    def _require_valid_call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        *,
        attention_mask: Any = None,
        use_causal_mask: bool = False,
        cache: KVCache | None = None,
        cross_attention_cache: CrossAttentionCache | None = None,
        relations: Any = None,
        **_: Any,
    ) -> int | None:
        """Checks arguments of `call`; returns the number of keys, None if it is not known yet."""
        is_cross = value is not None or cross_attention_cache is not None
        uses = {"causal": use_causal_mask, "cache": cache is not None, "cross": is_cross}
        try:
            self.mechanism.require_support(**uses, relations=relations is not None)
        except UserError as error:
            if value is None or self.mechanism.supports_cross:
                raise
            fix = f"{error.fix or ''} For self-attention leave `value` out.".strip()
            raise UserError(error.problem, where=error.where, fix=fix) from error
        require_rank("query", query, {3: "B, T, M"})
        for name, sequence in (("value", value), ("key", key)):
            if sequence is not None:
                require_rank(name, sequence, {3: "B, S, N"})
        if key is not None and value is None:
            raise UserError("`key` needs a `value`; got a `key` alone.", fix="Pass both.")
        if cache is not None and is_cross:
            problem = "`cache` is for self-attention, and this call is cross-attention."
            fix = "Pass `cross_attention_cache` in place of `value` and `cache`."
            raise UserError(problem, fix=fix)
        if cache is not None:
            key_length = cache.key.shape[2] if isinstance(cache, FixedKVCache) else None
        elif cross_attention_cache is not None:
            key_length = cross_attention_cache.key.shape[2]
        else:
            key_length = (query if value is None else value).shape[1]
        if relations is not None:
            _require_relations(query, key_length, relations)
        if attention_mask is not None:
            self._require_attention_mask(query, key_length, attention_mask)
        return key_length

    def _require_attention_mask(self, query: Any, key_length: int | None, mask: Any) -> None:
        if len(mask.shape) == 2:
            raise UserError(
                f"`attention_mask` must be [B, T, S] or [B, H, T, S]; got {tuple(mask.shape)}.",
                fix="Pass mask[:, None, :] for a key mask [B, S], or mask[None] for one [T, S].",
            )
        require_rank("attention_mask", mask, {3: "B, T, S", 4: "B, H, T, S"})
        self.mechanism.require_support(query_masks=is_query_mask(mask))
        letters, shape = "B, T, S", (query.shape[0], query.shape[1], key_length)
        if len(mask.shape) == 4:
            letters, shape = "B, H, T, S", (shape[0], self.num_heads, *shape[1:])
        require_broadcastable("attention_mask", mask, letters, shape)
        dtype = keras.backend.standardize_dtype(mask.dtype)
        if keras.backend.is_float_dtype(dtype):
            problem = f"`attention_mask` must be boolean, True = attend; got {dtype}."
            raise UserError(problem, fix="Pass mask > 0 or a similar comparison.")

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(self.call).bind(*args, **kwargs).arguments
        key_length = self._require_valid_call(**given)
        query, cache, scores = given["query"], given.get("cache"), None
        outputs_shape = self.compute_output_shape(query.shape)
        outputs = keras.KerasTensor(outputs_shape, dtype=self.compute_dtype)
        if given.get("return_attention_scores"):
            scores_shape = (query.shape[0], self.num_heads, query.shape[1], key_length)
            scores = keras.KerasTensor(scores_shape, dtype=self.compute_dtype)
        return with_extras(outputs, scores, None if cache is None else symbolic_like(cache))

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> Shape:
        outer = query_shape[-1:] if self._output_shape is None else self._output_shape
        return (*query_shape[:-1], *outer)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_shape": self._output_shape,
            "mechanism": serialize_settings(self.mechanism),
        }


def _require_relations(query: Any, key_length: int | None, relations: Any) -> None:
    require_rank("relations", relations, {3: "B, T, S"})
    shape = (query.shape[0], query.shape[1], key_length)
    require_broadcastable("relations", relations, "B, T, S", shape)
    dtype = keras.backend.standardize_dtype(relations.dtype)
    if not keras.backend.is_int_dtype(dtype):
        problem = f"`relations` must be integers, such as distances in a tree; got {dtype}."
        raise UserError(problem, fix='Pass keras.ops.cast(relations, "int32").')


def _positive_or_none(name: str, value: int | None) -> int | None:
    return None if value is None else require_positive_integer(name, value)


def _as_shape(name: str, shape: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    try:
        sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        return tuple(require_positive_integer(name, size) for size in sizes)
    except ArgumentError as error:
        raise ArgumentError(name, "a positive integer or a tuple of them", shape) from error


def _merge_masks(first: Any, second: Any) -> Any:
    """Returns the conjunction of two masks, either of which may be None."""
    if first is None or second is None:
        return second if first is None else first
    return ops.logical_and(ops.cast(first, "bool"), ops.cast(second, "bool"))


def _combine_masks(attention_mask: Any, key_mask: Any) -> Any:
    """Returns one mask of rank 4, broadcastable to `[B, H, T, S]`, or None."""
    if attention_mask is not None:
        attention_mask = ops.cast(attention_mask, "bool")
        if len(attention_mask.shape) == 3:
            attention_mask = ops.expand_dims(attention_mask, 1)
    if key_mask is not None:
        key_mask = ops.expand_dims(ops.cast(key_mask, "bool"), (1, 2))  # [B, 1, 1, S]
    return _merge_masks(attention_mask, key_mask)


def _rows_to_queries(query: Any, cache: CrossAttentionCache) -> Any:
    """Reshapes hypotheses `[B·N, T, M]` to `[B, N·T, M]`, so that a source has N·T queries."""
    rows, length, hidden_dim = shape_of(query)
    batch_size = shape_of(cache.key)[0]
    hypotheses = rows // ops.maximum(batch_size, 1)
    return ops.reshape(query, (batch_size, hypotheses * length, hidden_dim))


def _queries_to_rows(scores: Any, shape: Sequence[Any]) -> Any:
    """Reshapes scores `[B, H, N·T, S]` to `[B·N, H, T, S]` for a query of `shape` `[B·N, T, M]`."""
    rows, length, _ = shape
    batch_size, num_heads, queries, keys = shape_of(scores)
    hypotheses = queries // length
    scores = ops.reshape(scores, (batch_size, num_heads, hypotheses, length, keys))
    return ops.reshape(ops.transpose(scores, (0, 2, 1, 3, 4)), (rows, num_heads, length, keys))


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    """Returns the outputs of a layer, one or a tuple of several, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


def with_extras(outputs: Any, *extras: Any) -> Any:
    """Returns the outputs of a layer or, with further results that are not None, a tuple."""
    results = (outputs, *(each for each in extras if each is not None))
    return results if len(results) > 1 else outputs


def symbolic_like(tensors: Any) -> Any:
    """Returns symbolic Keras tensors with the shapes and types of a nest of tensors."""
    return keras.tree.map_structure(lambda each: keras.KerasTensor(each.shape, each.dtype), tensors)
