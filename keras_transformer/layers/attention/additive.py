"""Additive attention: scores from a small network over query and key."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    Integer,
    SoftmaxAttention,
    register_mechanism,
)


class ProjectedKeys(NamedTuple):
    """The keys' part `[B, H, S, A]` of the hidden layer of additive attention."""

    hidden: tf.Tensor


@register_mechanism("additive")
@keras.saving.register_keras_serializable(package="keras_transformer")
class AdditiveAttention(SoftmaxAttention):
    """Attention with the scores `v·tanh(W q + U k)`, where W, U and v belong to a head.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    section A.1.2. The hidden layer is a tensor `[B, H, T, S, A]`, so choose a small `units` for
    long texts in a Transformer; in a recurrent decoder, T is 1.

    Args:
        units: Integer. Size A of the hidden layer. Default None: the size of a head.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> state, source = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = AdditiveAttention(units=10)(state, source, source)
    >>> keras.Model([state, source], context).count_params()
    330
    """

    def __init__(self, units: int | None = None, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.units: int | None = (
            units if units is None else require_positive_integer("units", units)
        )

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        num_heads, key_dim = query_shape[1], query_shape[-1]
        units = self.units or key_dim

        def add_kernel(name: str, rows: int | None, columns: int | None) -> keras.Variable:
            # Glorot uniform for each head: Keras counts the heads as inputs of the matrix.
            initializer = keras.initializers.VarianceScaling(num_heads, "fan_avg", "uniform")
            return self.new_weight(name, (num_heads, rows, columns), initializer)

        self.query_kernel: keras.Variable = add_kernel("query_kernel", key_dim, units)
        self.key_kernel: keras.Variable = add_kernel("key_kernel", key_shape[-1], units)
        self.score_kernel: keras.Variable = add_kernel("score_kernel", units, 1)

    def precompute_keys(self, key: tf.Tensor) -> ProjectedKeys:
        kernel = ops.cast(self.key_kernel, self.compute_dtype)  # Keras casts only within `call`
        return ProjectedKeys(ops.einsum("bhsd,hda->bhsa", key, kernel))

    def compute_scores(self, query: tf.Tensor, key: Any, query_offset: Integer) -> tf.Tensor:
        from_query = ops.einsum("bhtd,hda->bhta", query, self.query_kernel)
        from_key = (key if isinstance(key, ProjectedKeys) else self.precompute_keys(key)).hidden
        hidden = ops.tanh(ops.expand_dims(from_query, 3) + ops.expand_dims(from_key, 2))
        # A matrix product creates no second tensor of that size.
        scores = tf.matmul(hidden, ops.expand_dims(self.score_kernel, 1))  # [B, H, T, S, 1]
        return ops.squeeze(scores, -1)
