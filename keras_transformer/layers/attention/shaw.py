"""Relative positions as learned vectors on keys and values."""

import keras
from keras import ops

from keras_transformer.layers.attention.distance_tables import DistanceTables
from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.softmax_attention import distances


@register_mechanism("shaw")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ShawRelative(DistanceTables):
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
    >>> context = ShawRelative(max_distance=8)(states, states, states)
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
