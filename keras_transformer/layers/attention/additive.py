"""Scores from a small network that reads query and key."""

from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import SoftmaxAttention, register_mechanism


class ProjectedKeys(NamedTuple):
    """Keys that have met their matrix.

    Attributes:
        sums: `[B, H, S, A]`, what they add to the network's hidden layer.
    """

    sums: tf.Tensor


@register_mechanism("additive")
@keras.saving.register_keras_serializable(package="keras_transformer")
class AdditiveAttention(SoftmaxAttention):
    """Scores `v·tanh(W q + U k)`, with W, U and v for each head.

    Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    section A.1.2. Every pair of a query and a key has a vector of its own: `[B, H, T, S, A]`, A
    times the memory of other mechanisms. That is nothing for a recurrent decoder, where T is 1, and
    a great deal for long texts in a Transformer; there, choose a small `units`.

    Args:
        units: A, the width of the network; by default that of a head, as in the paper.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = AdditiveAttention(units=10)(state, memory, memory)
    >>> keras.Model([state, memory], context).count_params()
    330
    """

    def __init__(self, units=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units if units is None else require_positive_integer("units", units)

    def build(self, query_shape, key_shape, value_shape):
        num_heads, width = query_shape[1], query_shape[-1]
        units = self.units or width
        for name, rows, columns in (
            ("query_kernel", width, units),
            ("key_kernel", key_shape[-1], units),
            ("score_kernel", units, 1),
        ):
            kernel = self.add_weight(
                name=name,
                shape=(num_heads, rows, columns),
                # Glorot's uniform for each head: Keras counts the heads among a matrix's inputs.
                initializer=keras.initializers.VarianceScaling(num_heads, "fan_avg", "uniform"),
            )
            setattr(self, name, kernel)
        self.built = True

    def prepare(self, key):
        kernel = ops.cast(self.key_kernel, self.compute_dtype)  # Keras does so in `call` alone
        return ProjectedKeys(ops.einsum("bhsd,hda->bhsa", key, kernel))

    def score(self, query, key, query_offset):
        from_query = ops.einsum("bhtd,hda->bhta", query, self.query_kernel)
        from_key = (key if isinstance(key, ProjectedKeys) else self.prepare(key)).sums
        sums = ops.expand_dims(from_query, 3) + ops.expand_dims(from_key, 2)  # [B, H, T, S, A]
        hidden = ops.tanh(sums)
        # A product of matrices, which makes no second tensor of that size.
        scores = tf.matmul(hidden, ops.expand_dims(self.score_kernel, 1))  # [B, H, T, S, 1]
        return ops.squeeze(scores, -1)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
