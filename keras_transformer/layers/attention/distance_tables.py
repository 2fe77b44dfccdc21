"""What the mechanisms share that learn a vector for each distance, on keys and on values."""

import keras

from keras_transformer.checks import require_positive_integer
from keras_transformer.layers.attention.scaled_dot_product import ScaledDotProduct


class DistanceTables(ScaledDotProduct):
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
