"""Relative attention: learned vectors for distances in the text or in a tree."""

from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    Integer,
    at_least_float32,
    register_mechanism,
    relative_positions,
)

#: The relation of two tokens without a distance, such as tokens outside of any tree.
UNRELATED = 2**30


class RelativeAttention(ScaledDotProductAttention):
    """Base of the mechanisms that add a vector for a distance to the key and to the value.

    The tables `key_distances` and `value_distances` have a row for every distance from
    `-max_distance` to `max_distance`, in this order, followed by `num_extra_rows`.

    Args: those of `ShawAttention`.
    """

    #: Number of rows of a table that belong to no distance.
    num_extra_rows: ClassVar[int] = 0

    def __init__(
        self,
        max_distance: int = 16,
        embeddings_initializer: Any = "glorot_uniform",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.max_distance: int = require_positive_integer("max_distance", max_distance)
        self.embeddings_initializer: Any = keras.initializers.get(embeddings_initializer)

    @property
    def num_rows(self) -> int:
        """Number of rows of each table."""
        return 2 * self.max_distance + 1 + self.num_extra_rows

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shapes = [(self.num_rows, shape[-1]) for shape in (key_shape, value_shape)]
        # Cloned: an initializer with a seed would give the same values to both.
        clone = self.embeddings_initializer.clone
        new = self.new_weight
        self.key_distances: keras.Variable = new("key_distances", shapes[0], clone())
        self.value_distances: keras.Variable = new("value_distances", shapes[1], clone())


@register_mechanism("shaw")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ShawAttention(RelativeAttention):
    """Attention that adds a vector for the distance of query and key to the key and the value.

    Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3: scores are
    `q_i·(k_j + a_{j-i}) / sqrt(D)` and the context is the sum of `w_ij (v_j + b_{j-i})`, with
    distances clipped to `±max_distance`. The heads share the two tables.

    Args:
        max_distance: Integer. Longer distances share one vector. Default 16, as in the paper.
        embeddings_initializer: Initializer of the tables. Default "glorot_uniform".
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = ShawAttention(max_distance=8)(states, states, states)
    >>> keras.Model(states, context).count_params()
    544
    """

    supports_cross = False
    encodes_positions = True

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        vectors = self._look_up(self.key_distances, query, key, query_offset)  # [T, S, D]
        by_content = super().compute_scores(query, key, query_offset)
        return by_content + ops.einsum("bhtd,tsd->bhts", query * query.shape[-1] ** -0.5, vectors)

    def combine_values(
        self, weights: tf.Tensor, value: tf.Tensor, query_offset: Integer
    ) -> tf.Tensor:
        vectors = self._look_up(self.value_distances, weights, value, query_offset)  # [T, S, D]
        by_content = super().combine_values(weights, value, query_offset)
        return by_content + ops.einsum("bhts,tsd->bhtd", weights, vectors)

    def _look_up(
        self, table: Any, queries: tf.Tensor, keys: tf.Tensor, query_offset: Integer
    ) -> tf.Tensor:
        """Returns the row of `table` for each pair of positions, `[T, S, D]`."""
        distance = relative_positions(queries, keys, query_offset)  # [T, S]
        clipped = ops.clip(distance, -self.max_distance, self.max_distance)
        return ops.take(table, clipped + self.max_distance, axis=0)


@register_mechanism("structural")
@keras.saving.register_keras_serializable(package="keras_transformer")
class StructuralAttention(RelativeAttention):
    """Attention that adds a vector for the relation of query and key to the key and the value.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", the section on
    relative structural positions: the distance of two words in the dependency tree is encoded as
    `ShawAttention` encodes their distance in the sentence. Scores are `q_i·(k_j + a_r) / sqrt(D)`
    and the context is the sum of `w_ij (v_j + b_r)` for the relation r of i and j, with distances
    clipped to `±max_distance`. The heads share the two tables.

    Unlike in the paper, the last row of the tables is for unrelated tokens. No tensor
    `[B, T, S, D]` is needed: queries are multiplied with the table before the relations are looked
    up, and weights are summed by relation before they are multiplied with the table.

    Call arguments, in addition to those of `AttentionMechanism`:
        relations: Integers `[B, T, S]`, such as the result of `token_distances`, or `UNRELATED`.
            Default None: no two tokens are related.

    Args:
        max_distance: Integer. Longer distances share one vector. Default 16.
        embeddings_initializer: Initializer of the tables. Default "glorot_uniform".
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states, relations = keras.Input((4, None, 16)), keras.Input((None, None), dtype="int32")
    >>> context = StructuralAttention(max_distance=8)(states, states, states, relations=relations)
    >>> keras.Model([states, relations], context).count_params()
    576
    """

    supports_relations = True
    num_extra_rows = 1

    def look_up_relations(
        self, query: tf.Tensor, key: tf.Tensor, relations: tf.Tensor | None
    ) -> dict[str, Any]:
        """Returns the row of the tables for each query and key, as `rows` `[B, H, T, S]`."""
        batch_size, num_heads, queries, _ = ops.shape(query)
        limit, keys = self.max_distance, ops.shape(key)[2]
        if relations is None:
            relations = tf.fill([batch_size, queries, keys], UNRELATED)
        relations = ops.cast(relations, "int32")
        clipped = ops.clip(relations, -limit, limit) + limit
        rows = tf.where(relations == UNRELATED, self.num_rows - 1, clipped)
        return {"rows": tf.broadcast_to(rows[:, None], [batch_size, num_heads, queries, keys])}

    def compute_scores(
        self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer, rows: Any = None
    ) -> tf.Tensor:
        by_content = super().compute_scores(query, key, query_offset)
        scaled = query * query.shape[-1] ** -0.5
        by_row = tf.matmul(scaled, self.key_distances, transpose_b=True)  # [B, H, T, R]
        return by_content + tf.gather(by_row, rows, batch_dims=3)

    def combine_values(
        self, weights: tf.Tensor, value: tf.Tensor, query_offset: Integer, rows: Any = None
    ) -> tf.Tensor:
        by_content = super().combine_values(weights, value, query_offset)
        by_row = ops.cast(self._sum_by_row(at_least_float32(weights), rows), value.dtype)
        return by_content + tf.matmul(by_row, self.value_distances)

    def _sum_by_row(self, weights: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the sum of the weights `[B, H, T, S]` for each of R rows: `[B, H, T, R]`."""
        num_rows, shape = self.num_rows, tf.shape(weights)
        queries = tf.reduce_prod(shape[:3])
        segments = tf.reshape(rows, [queries, -1]) + num_rows * tf.range(queries)[:, None]
        flat, segments = tf.reshape(weights, [-1]), tf.reshape(segments, [-1])
        sums = tf.math.unsorted_segment_sum(flat, segments, queries * num_rows)
        return tf.reshape(sums, [shape[0], shape[1], shape[2], num_rows])
