"""Queries, keys and values projected to several heads, and a mechanism that lets them meet."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import (
    require_boolean,
    require_broadcastable,
    require_divisible,
    require_known_dim,
    require_positive_integer,
    require_rank,
    require_rate,
)
from keras_transformer.layers.attention.mechanism import (
    is_query_mask,
    make_mechanism,
    serialize_mechanism,
)
from keras_transformer.layers.kv_cache import GrowingCache


def symbolic(cache):
    """Symbolic tensors of the shapes and types in a cache."""
    return keras.tree.map_structure(lambda part: keras.KerasTensor(part.shape, part.dtype), cache)


def known_key_length(query, memory, projected_memory, cache):
    """How many keys a call is about, or None if that is not known before the data come."""
    if isinstance(cache, GrowingCache):
        return None
    if cache is not None:
        return cache["key"].shape[2]
    if projected_memory is not None:
        return projected_memory["key"].shape[2]
    return (query if memory is None else memory).shape[1]


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention over any registered mechanism, self or cross, with an optional cache.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; with fewer heads for keys and
    values, Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models".

    Masking: keys are hidden where the implicit Keras mask of `memory` (of `query`, in
    self-attention) is False, and where `attention_mask` is. The output carries the mask of `query`.

    Args:
        num_heads: H, heads of the queries.
        key_dim: D, size of a head; by default M / H, which must be whole.
        num_key_value_heads: heads of keys and values, each shared by H over this many queries'
            heads; by default H.
        mechanism: a name of `keras_transformer.layers.MECHANISMS`, or an instance to take after.
        dropout: rate on the attention weights.
        use_bias: whether the four projections have biases.
        kernel_initializer, bias_initializer: of the projections.

    Call arguments:
        query: `[B, T, M]`.
        memory: `[B, S, N]` to attend to; without it, `query` attends to itself.
        attention_mask: boolean, True = attend: `[B, T, S]`, or `[B, H, T, S]` with 1 allowed for
            any axis but the last.
        use_causal_mask: whether a query sees only keys up to its own position.
        return_attention_scores: whether to return the weights `[B, H, T, S]` (before dropout) as well.
        cache: for self-attention over what came before: what `initial_cache` gave, or the call
            before this one. The updated cache is returned last.
        offset: number of positions already in the cache; with those of `query` it must not be
            more than the cache has room for.
        projected_memory: for cross-attention step by step: what `project_memory` gave, in place of
            `memory`. `query` may have N rows for each of its rows, one after the other: those of N
            hypotheses that share a memory.
        relations: how queries and keys are related, whole numbers `[B, T, S]`, for a mechanism that
            reads them, such as "structural".

    Returns:
        `[B, T, M]`, or a tuple of it and, as asked for, weights and cache.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = MultiHeadAttention(num_heads=4, mechanism="rotary")(x, use_causal_mask=True)
    >>> keras.Model(x, y).output_shape
    (None, None, 64)
    """

    def __init__(
        self,
        num_heads,
        key_dim=None,
        num_key_value_heads=None,
        mechanism="scaled_dot_product",
        dropout=0.0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = require_positive_integer("num_heads", num_heads)
        self.key_dim = key_dim
        if key_dim is not None:
            require_positive_integer("key_dim", key_dim)
        self.num_key_value_heads = require_positive_integer(
            "num_key_value_heads", num_heads if num_key_value_heads is None else num_key_value_heads
        )
        require_divisible(
            "num_heads", self.num_heads, "num_key_value_heads", self.num_key_value_heads
        )
        self.dropout = require_rate("dropout", dropout)
        self.mechanism = make_mechanism(
            mechanism, self.dropout, name="mechanism", dtype=self.dtype_policy
        )
        self.use_bias = require_boolean("use_bias", use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, query_shape, memory_shape=None):
        self.hidden_dim = hidden_dim = require_known_dim("query", query_shape)
        if self.key_dim is None:
            self.key_dim = require_divisible("hidden_dim", hidden_dim, "num_heads", self.num_heads)
        memory_width = hidden_dim
        if memory_shape is not None:
            memory_width = require_known_dim("memory", memory_shape)
        query_units = self.num_heads * self.key_dim
        key_units = self.num_key_value_heads * self.key_dim
        self.query_projection = self._projection("query", hidden_dim, query_units)
        self.key_projection = None
        if self.mechanism.reads_keys:
            self.key_projection = self._projection("key", memory_width, key_units)
        self.value_projection = self._projection("value", memory_width, key_units)
        self.output_projection = self._projection("output", query_units, hidden_dim)
        heads_shape = (None, self.num_heads, None, self.key_dim)
        self.mechanism.build(heads_shape, heads_shape, heads_shape)
        self.built = True

    def _projection(self, name, input_width, units):
        projection = keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            # Cloned: an initializer with a seed would give the same numbers to all four.
            kernel_initializer=self.kernel_initializer.clone(),
            bias_initializer=self.bias_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, input_width))
        return projection

    def call(
        self,
        query,
        memory=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        cache=None,
        offset=0,
        projected_memory=None,
        relations=None,
        mask=None,  # Keras puts the implicit mask of `query` here when it is the only tensor …
        query_mask=None,  # … and here when it is not.
        memory_mask=None,
        training=None,
    ):
        is_cross = memory is not None or projected_memory is not None
        self._check_use(
            query, memory, projected_memory, attention_mask, use_causal_mask, cache, relations
        )
        shape = ops.shape(query)
        if projected_memory is not None:
            query = self._side_by_side(query, projected_memory)
        queries = self._split(self.query_projection, query, self.num_heads)  # [B, H, T, D]
        if is_cross:
            keys_and_values = projected_memory or self._project(memory, memory_mask)
        else:
            keys_and_values = self._project(query, query_mask if mask is None else mask)
            queries, keys_and_values["key"] = self.mechanism.place(
                queries, keys_and_values["key"], offset
            )
            if isinstance(cache, GrowingCache):
                cache = cache.extended(keys_and_values)
                keys_and_values = cache._asdict()
            elif cache is not None:
                keys_and_values = cache = self._extend(cache, keys_and_values, offset)
            is_latest = cache is not None and query.shape[1] == 1
            if is_latest and self.mechanism.latest_sees_all:
                use_causal_mask = False
        context = self.mechanism(
            queries,
            self._share(keys_and_values["key"]),
            self._share(keys_and_values["value"]),
            attention_mask=self._merge_masks(attention_mask, keys_and_values["mask"]),
            query_offset=offset,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            **({} if relations is None else {"relations": relations}),
        )
        context, *weights = context if return_attention_scores else (context,)
        joined = self._join(context)
        if projected_memory is not None:
            joined = ops.reshape(joined, shape)
            weights = [self._one_below_the_other(w, shape) for w in weights]
        outputs = (joined, *weights, *([] if cache is None else [cache]))
        return outputs if len(outputs) > 1 else outputs[0]

    def initial_cache(self, batch_size, max_length):
        """An empty cache for `max_length` positions, for self-attention step by step.

        Its layout is fixed: keys and values `[B, K, L, D]`, and which positions hold a token,
        boolean `[B, L]`. With a `max_length` of None it is a `GrowingCache`. The layer must have
        been called or built before.
        """
        if not self.built:
            raise ValueError(
                f"MultiHeadAttention '{self.name}' does not know its shapes yet. Call it once, or "
                "build((None, None, hidden_dim)), before initial_cache."
            )
        if max_length is None:
            return GrowingCache.empty(
                batch_size, self.num_key_value_heads, self.key_dim, self.compute_dtype
            )
        shape = (batch_size, self.num_key_value_heads, max_length, self.key_dim)
        return {
            "key": ops.zeros(shape, dtype=self.compute_dtype),
            "value": ops.zeros(shape, dtype=self.compute_dtype),
            "mask": ops.zeros((batch_size, max_length), dtype="bool"),
        }

    def project_memory(self, memory, memory_mask=None):
        """Keys, values and mask of a memory `[B, S, N]`, projected once for all steps to come."""
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2], dtype="bool")
        return self._project(memory, memory_mask)

    def _project(self, inputs, mask):
        key = value = self._split(self.value_projection, inputs, self.num_key_value_heads)
        if self.key_projection is not None:
            key = self._split(self.key_projection, inputs, self.num_key_value_heads)
        return {"key": key, "value": value, "mask": mask}

    def _split(self, projection, inputs, num_heads):
        """Projects `[B, T, M]` to heads `[B, H, T, D]`."""
        _, length, hidden_dim = inputs.shape
        # Two dimensions, because the gradient of a three-dimensional product is built row by row.
        projected = projection(ops.reshape(inputs, (-1, hidden_dim)))  # [B·T, H·D]
        # With a length that is known, the batch follows: no arithmetic with shapes at each step.
        rows = (-1, length) if length else ops.shape(inputs)[:2]
        heads = ops.reshape(projected, (*rows, num_heads, self.key_dim))
        return ops.transpose(heads, (0, 2, 1, 3))

    def _join(self, context):
        """Projects heads `[B, H, T, D]` back to `[B, T, M]`."""
        _, num_heads, length, key_dim = context.shape
        flat = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, num_heads * key_dim))
        rows = (-1, length) if length else (ops.shape(context)[0], ops.shape(context)[2])
        return ops.reshape(self.output_projection(flat), (*rows, self.hidden_dim))

    def _share(self, heads):
        """Repeats keys or values `[B, K, S, D]` for the queries' heads that share them."""
        repeats = self.num_heads // self.num_key_value_heads
        return heads if repeats == 1 else ops.repeat(heads, repeats, axis=1)

    def _extend(self, cache, new, offset):
        """The cache with keys, values and mask of the T positions from `offset` on filled in."""
        batch_size, heads, length, hidden_dim = ops.shape(new["key"])
        if new["mask"] is None:
            new = {**new, "mask": ops.ones((batch_size, length), dtype="bool")}
        positions = offset + tf.range(length)  # [T]

        def write(old, fresh, rows):
            """`old` `[R, L, …]` with `fresh` `[R, T, …]`: XLA writes it in place."""
            places = tf.meshgrid(tf.range(rows), positions, indexing="ij")
            return tf.tensor_scatter_nd_update(old, tf.stack(places, axis=-1), fresh)

        def write_heads(old, fresh):
            flat_old = tf.reshape(old, [-1, tf.shape(old)[2], hidden_dim])  # [B·K, L, D]
            flat_fresh = tf.reshape(fresh, [-1, length, hidden_dim])  # [B·K, T, D]
            return tf.reshape(write(flat_old, flat_fresh, batch_size * heads), tf.shape(old))

        return {
            "key": write_heads(cache["key"], new["key"]),
            "value": write_heads(cache["value"], new["value"]),
            "mask": write(cache["mask"], new["mask"], batch_size),
        }

    def _side_by_side(self, query, projected_memory):
        """Hypotheses `[B·N, T, M]` as `[B, N·T, M]`: to their memory they are so many queries."""
        rows, length, hidden_dim = ops.shape(query)
        batch_size = ops.shape(projected_memory["key"])[0]
        hypotheses = rows // ops.maximum(batch_size, 1)
        return ops.reshape(query, (batch_size, hypotheses * length, hidden_dim))

    def _one_below_the_other(self, weights, shape):
        """Weights `[B, H, N·T, S]` as `[B·N, H, T, S]`, for hypotheses of `shape` `[B·N, T, M]`."""
        rows, length, _ = shape
        batch_size, num_heads, queries, keys = ops.shape(weights)
        hypotheses = queries // length
        weights = ops.reshape(weights, (batch_size, num_heads, hypotheses, length, keys))
        return ops.reshape(ops.transpose(weights, (0, 2, 1, 3, 4)), (rows, num_heads, length, keys))

    def _merge_masks(self, attention_mask, key_mask):
        """One mask of rank 4, broadcastable to `[B, H, T, S]`, or None."""
        if attention_mask is not None:
            attention_mask = ops.cast(attention_mask, "bool")
            if len(attention_mask.shape) == 3:
                attention_mask = ops.expand_dims(attention_mask, 1)
        if key_mask is None:
            return attention_mask
        key_mask = ops.expand_dims(ops.cast(key_mask, "bool"), (1, 2))  # [B, 1, 1, S]
        return key_mask if attention_mask is None else ops.logical_and(attention_mask, key_mask)

    def _check_use(
        self, query, memory, projected_memory, attention_mask, use_causal_mask, cache, relations
    ):
        self.mechanism.check_use(
            is_causal=use_causal_mask,
            is_cached=cache is not None,
            is_cross=memory is not None or projected_memory is not None,
            has_relations=relations is not None,
        )
        require_rank("query", query, {3: "B, T, M"})
        if memory is not None:
            require_rank("memory", memory, {3: "B, S, N"})
        key_length = known_key_length(query, memory, projected_memory, cache)
        if relations is not None:
            self._check_relations(query, key_length, relations)
        if attention_mask is not None:
            self._check_mask(query, key_length, attention_mask)

    def _check_relations(self, query, key_length, relations):
        require_rank("relations", relations, {3: "B, T, S"})
        require_broadcastable(
            "relations", relations, "B, T, S", (query.shape[0], query.shape[1], key_length)
        )
        dtype = keras.backend.standardize_dtype(relations.dtype)
        if not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"`relations` must be whole numbers, such as distances in a tree; got {dtype}. "
                'Pass keras.ops.cast(relations, "int32").'
            )

    def _check_mask(self, query, key_length, attention_mask):
        if len(attention_mask.shape) == 2:
            raise ValueError(
                "`attention_mask` must have shape [B, T, S] or [B, H, T, S]; got "
                f"{tuple(attention_mask.shape)}. For a mask of padding [B, S] pass "
                "mask[:, None, :], for one mask [T, S] for all rows pass mask[None]."
            )
        require_rank("attention_mask", attention_mask, {3: "B, T, S", 4: "B, H, T, S"})
        self.mechanism.check_use(has_query_mask=is_query_mask(attention_mask))
        if len(attention_mask.shape) == 3:
            letters, wanted = "B, T, S", (query.shape[0], query.shape[1], key_length)
        else:
            letters = "B, H, T, S"
            wanted = (query.shape[0], self.num_heads, query.shape[1], key_length)
        require_broadcastable("attention_mask", attention_mask, letters, wanted)
        if keras.backend.is_float_dtype(attention_mask.dtype):
            dtype = keras.backend.standardize_dtype(attention_mask.dtype)
            raise ValueError(
                f"`attention_mask` must be boolean, True = attend; got {dtype}. Pass mask > 0 or "
                "the like."
            )

    def compute_output_spec(
        self,
        query,
        memory=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        cache=None,
        projected_memory=None,
        relations=None,
        **kwargs,
    ):
        self._check_use(
            query, memory, projected_memory, attention_mask, use_causal_mask, cache, relations
        )
        outputs = [keras.KerasTensor(query.shape, dtype=self.compute_dtype)]
        if return_attention_scores:
            key_length = known_key_length(query, memory, projected_memory, cache)
            weights_shape = (query.shape[0], self.num_heads, query.shape[1], key_length)
            outputs.append(keras.KerasTensor(weights_shape, dtype=self.compute_dtype))
        if cache is not None:
            outputs.append(symbolic(cache))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def compute_output_shape(self, query_shape, memory_shape=None):
        return query_shape

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "mechanism": serialize_mechanism(self.mechanism),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
