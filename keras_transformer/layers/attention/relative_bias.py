"""Attention with a learned bias for the distance of query and key, as in T5."""

import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_boolean, require_positive_integer
from keras_transformer._utils.errors import ArgumentError
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.dot_product import ScaledDotProductAttention
from keras_transformer.layers.attention.mechanism import (
    AttentionInputs,
    AttentionMechanism,
    Integer,
    at_least_float32,
    register_mechanism,
    relative_positions,
)


@register_mechanism("relative_bias")
@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativeBiasAttention(ScaledDotProductAttention):
    """Dot-product attention with a learned bias for each head and bucket of distances.

    Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1. Half of the buckets hold one distance each; the others hold distances
    that grow logarithmically up to `max_distance`, and the last one all longer distances. With a
    causal mask, all buckets are for earlier keys; without, half of them are for later keys. The
    blocks of a stack share the table of biases.

    Args:
        num_buckets: Integer. Number of buckets, a multiple of 4. Default 32, as in T5.
        max_distance: Integer. Shortest distance of the last bucket. Default 128, as in T5.
        scale: Boolean. Whether `q·k` is divided by sqrt(D). T5 does not, and initializes the
            projection of queries accordingly. Default True.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> states = keras.Input((4, None, 16))
    >>> context = RelativeBiasAttention()(states, states, states)
    >>> keras.Model(states, context).count_params()
    128
    """

    supports_cross = False
    encodes_positions = True
    last_query_sees_all_keys = False  # the causal mask decides on the buckets, also in a step

    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        scale: bool = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.num_buckets: int = require_positive_integer("num_buckets", num_buckets)
        if self.num_buckets % 4:
            raise ArgumentError("num_buckets", "a multiple of 4", num_buckets)
        self.max_distance: int = require_positive_integer("max_distance", max_distance)
        if self.max_distance <= self.num_buckets // 2:
            expected = f"above num_buckets / 2 = {self.num_buckets // 2}"
            raise ArgumentError("max_distance", expected, max_distance)
        self.scale: bool = require_boolean("scale", scale)
        self.biases: keras.Variable | None = None

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        if self.biases is None:
            self.biases = self.new_weight("biases", (self.num_buckets, query_shape[1]))

    def share_weights(self, other: AttentionMechanism) -> None:
        if isinstance(other, RelativeBiasAttention) and other.biases is not None:
            self.biases = other.biases

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        scores = super().compute_scores(query, key, query_offset)
        # Half precision overflows without the scale, so it is removed in float32.
        return scores if self.scale else at_least_float32(scores) * query.shape[-1] ** 0.5

    def compute_biases(self, inputs: AttentionInputs) -> tf.Tensor:
        distance = relative_positions(inputs.query, inputs.key, inputs.query_offset)  # [T, S]
        buckets = self.bucket(distance, inputs.use_causal_mask)
        biases = tf.gather(at_least_float32(tf.convert_to_tensor(self.biases)), buckets)
        return tf.transpose(biases, [2, 0, 1])[tf.newaxis]  # [1, H, T, S]

    def bucket(self, distance: tf.Tensor, is_causal: bool) -> tf.Tensor:
        """Returns the bucket of each distance, the position of a key minus that of a query."""
        count, first = self.num_buckets, 0
        if not is_causal:
            count //= 2
            first = count * ops.cast(distance > 0, "int32")
            distance = -ops.abs(distance)
        back = ops.maximum(-distance, 0)
        exact = count // 2  # buckets of one distance each
        ratio = ops.cast(ops.maximum(back, exact), "float32") / exact
        logarithm = ops.log(ratio) / math.log(self.max_distance / exact)
        far = exact + ops.cast(logarithm * (count - exact), "int32")
        return first + ops.where(back < exact, back, ops.minimum(far, count - 1))
