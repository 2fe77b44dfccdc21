"""Content-based attention: scores from the cosine of query and key."""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_known_dim
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    Integer,
    SoftmaxAttention,
    at_least_float32,
    register_mechanism,
)

# Squared length below which a vector counts as zero; its gradient is precise in float32 above it.
_SMALLEST_SQUARE = 1e-12


def normalized(vectors: tf.Tensor) -> tf.Tensor:
    """Returns vectors `[…, D]` of length 1; a zero vector stays zero, with a gradient of 0."""
    vectors = at_least_float32(vectors)
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)  # […, 1]
    has_length = squares > _SMALLEST_SQUARE
    inverse = ops.rsqrt(ops.where(has_length, squares, ops.ones_like(squares)))
    return vectors * ops.where(has_length, inverse, ops.zeros_like(inverse))


@register_mechanism("content_based")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ContentBasedAttention(SoftmaxAttention):
    """Attention `softmax(b cos(q, k)) v`, with a learned sharpness b above 0 for each head.

    Graves et al. 2014, "Neural Turing Machines", section 3.3.1. In the paper a controller computes
    b; here b is `softplus` of a weight. The initial b is sqrt(D), with which the scores of random
    vectors are as large as those of scaled dot products.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> state, source = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = ContentBasedAttention()(state, source, source)
    >>> keras.Model([state, source], context).count_params()
    1
    """

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        key_dim = require_known_dim("query", query_shape)
        inverse_softplus = math.log(math.expm1(math.sqrt(key_dim)))
        initializer = keras.initializers.Constant(inverse_softplus)
        self.sharpness: keras.Variable = self.new_weight("sharpness", query_shape[1:2], initializer)

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        query, key = (ops.cast(normalized(x), self.compute_dtype) for x in (query, key))
        cosines = at_least_float32(tf.matmul(query, key, transpose_b=True))  # [B, H, T, S]
        sharpness = ops.softplus(ops.cast(self.sharpness, cosines.dtype))  # [H]
        return cosines * ops.reshape(sharpness, (-1, 1, 1))
