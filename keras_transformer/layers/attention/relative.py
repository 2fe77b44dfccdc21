"""Relations between tokens, such as distances in a tree, as learned vectors on keys and values."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    distances,
    full_precision,
    register_mechanism,
)


class DistanceTables(ScaledDotProductAttention):
    """Base of the mechanisms that add a vector for a distance to the key and to the value.

    It owns two tables, `key_distances` and `value_distances`, each with a row for every distance
    from `-max_distance` to `max_distance`, in this order, and `further_rows`.

    Args:
        max_distance: distances beyond it share one vector.
        embeddings_initializer: of the two tables.

    Other arguments and call arguments: see `AttentionMechanism`.
    """

    #: Rows of the tables for what is no distance.
    further_rows = 0

    def __init__(self, max_distance=16, embeddings_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.max_distance = require_positive_integer("max_distance", max_distance)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    @property
    def num_rows(self):
        """How many rows each table has."""
        return 2 * self.max_distance + 1 + self.further_rows

    def build(self, query_shape, key_shape, value_shape):
        for name, width in (("key", key_shape[-1]), ("value", value_shape[-1])):
            table = self.add_weight(
                name=f"{name}_distances",
                shape=(self.num_rows, width),
                # Of its own: one initializer would give the same numbers to both.
                initializer=self.embeddings_initializer.clone(),
            )
            setattr(self, f"{name}_distances", table)
        self.built = True

    def get_config(self):
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


@register_mechanism("shaw")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ShawAttention(DistanceTables):
    """Adds a vector for the distance between query and key to the key and to the value.

    Shaw et al. 2018, "Self-Attention with Relative Position Representations": scores are
    `q_i·(k_j + a_{j-i}) / sqrt(D)` and the context is the sum of `w_ij (v_j + b_{j-i})`, with
    distances clipped to `±max_distance`. The two tables are shared by the heads.

    Args:
        max_distance: distances beyond it share one vector. The paper uses 16 (base) and 8 (big).
        embeddings_initializer: of the two `[2·max_distance + 1, D]` tables.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> states = keras.Input((4, None, 16))
    >>> context = ShawAttention(max_distance=8)(states, states, states)
    >>> keras.Model(states, context).count_params()
    544
    """

    supports_cross = False
    encodes_positions = True

    def score(self, query, key, query_offset):
        table = self._look_up(self.key_distances, query, key, query_offset)  # [T, S, D]
        by_content = super().score(query, key, query_offset)
        return by_content + ops.einsum("bhtd,tsd->bhts", query * query.shape[-1] ** -0.5, table)

    def mix(self, weights, value, query_offset):
        table = self._look_up(self.value_distances, weights, value, query_offset)  # [T, S, D]
        by_content = super().mix(weights, value, query_offset)
        return by_content + ops.einsum("bhts,tsd->bhtd", weights, table)

    def _look_up(self, table, queries, keys, query_offset):
        """Rows of `table` for each pair of positions: `[T, S, D]`."""
        distance = distances(queries, keys, query_offset)  # [T, S]
        clipped = ops.clip(distance, -self.max_distance, self.max_distance)
        return ops.take(table, clipped + self.max_distance, axis=0)


#: The relation of two tokens that have none, such as when one of them is in no tree.
UNRELATED = 2**30


@register_mechanism("structural")
@keras.saving.register_keras_serializable(package="keras_transformer")
class StructuralAttention(DistanceTables):
    """Adds a vector for the relation between query and key to the key and to the value.

    Wang et al. 2019, "Self-Attention with Structural Position Representations", the section on
    relative structural positions: the distance of two words in the dependency tree is encoded as
    Shaw et al. 2018, "Self-Attention with Relative Position Representations", encode that in the
    sentence. Scores are `q_i·(k_j + a_r) / sqrt(D)` and the context is the sum of `w_ij (v_j +
    b_r)` for the relation r of i and j, with distances clipped to `±max_distance`. The two tables
    are shared by the heads. Ours are the row of those that have no relation, and the order of the
    sums: queries meet the table before the keys do, and weights are added up by relation before
    they meet it, so that no `[B, T, S, D]` is ever held.

    Where the tokens stand in the sentence it does not know: embeddings have positions beside it.

    Args:
        max_distance: distances beyond it share one vector; 16, as in Shaw's base model.
        embeddings_initializer: of the two `[2·max_distance + 2, D]` tables. Their last row is that
            of `UNRELATED` tokens.

    Call arguments: those of `AttentionMechanism`, and
        relations: int32 `[B, T, S]`, such as `token_distances` gives them, or `UNRELATED`. Without
            them no two tokens are related.

    Example:

    >>> states, relations = keras.Input((4, None, 16)), keras.Input((None, None), dtype="int32")
    >>> context = StructuralAttention(max_distance=8)(states, states, states, relations=relations)
    >>> keras.Model([states, relations], context).count_params()
    576
    """

    reads_relations = True
    further_rows = 1

    def call(
        self,
        query,
        key,
        value,
        attention_mask=None,
        query_offset=0,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
        relations=None,
    ):
        return self.attend(
            query,
            key,
            value,
            attention_mask,
            query_offset,
            use_causal_mask,
            return_attention_scores,
            training,
            rows=self._rows(query, key, relations),
        )

    def score(self, query, key, query_offset, rows):
        by_content = super().score(query, key, query_offset)
        scaled = query * query.shape[-1] ** -0.5
        by_row = tf.matmul(scaled, self.key_distances, transpose_b=True)  # [B, H, T, R]
        return by_content + tf.gather(by_row, rows, batch_dims=3)

    def mix(self, weights, value, query_offset, rows):
        by_content = super().mix(weights, value, query_offset)
        by_row = ops.cast(self._sum_by_row(full_precision(weights), rows), value.dtype)
        return by_content + tf.matmul(by_row, self.value_distances)

    def _rows(self, query, key, relations):
        """Which row of the tables is that of each pair, `[B, H, T, S]`."""
        batch_size, num_heads, queries, _ = ops.shape(query)
        reach, keys = self.max_distance, ops.shape(key)[2]
        if relations is None:
            relations = tf.fill([batch_size, queries, keys], UNRELATED)
        relations = ops.cast(relations, "int32")
        clipped = ops.clip(relations, -reach, reach) + reach
        rows = tf.where(relations == UNRELATED, self.num_rows - 1, clipped)
        return tf.broadcast_to(rows[:, None], [batch_size, num_heads, queries, keys])

    def _sum_by_row(self, weights, rows):
        """The sum of the weights `[B, H, T, S]` of each of R rows of the tables: `[B, H, T, R]`."""
        size, shape = self.num_rows, tf.shape(weights)
        queries = tf.reduce_prod(shape[:3])
        places = tf.reshape(rows, [queries, -1]) + size * tf.range(queries)[:, None]
        sums = tf.math.unsorted_segment_sum(
            tf.reshape(weights, [-1]), tf.reshape(places, [-1]), queries * size
        )
        return tf.reshape(sums, [shape[0], shape[1], shape[2], size])
