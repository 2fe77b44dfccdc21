"""Scores by the angle between query and key."""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.mechanism import SoftmaxAttention, register_mechanism

# The square of a length below which a vector has no direction. Well above what float32 loses in
# the gradient, a third power of the length.
NO_LENGTH = 1e-12


def directions(vectors):
    """Vectors `[…, D]` with length 1, at least in float32; those of no length become 0.

    Nor is there a gradient to a vector of no length, where that of a plain division is not a
    number.
    """
    vectors = ops.cast(vectors, keras.backend.result_type(vectors.dtype, "float32"))
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)  # […, 1]
    has_length = squares > NO_LENGTH
    inverse = ops.rsqrt(ops.where(has_length, squares, ops.ones_like(squares)))
    return vectors * ops.where(has_length, inverse, ops.zeros_like(inverse))


@register_mechanism("content_based")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ContentBasedAttention(SoftmaxAttention):
    """`softmax(b cos(q, k)) v`, with a learned sharpness b above 0 for each head.

    Graves et al. 2014, "Neural Turing Machines", section 3.3.1, where b is put out at each step;
    here it is a weight, `softplus` of which is b. It starts at the square root of D: the cosines of
    random vectors are as small as that makes up for, so that training starts with the scores of
    scaled products.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = ContentBasedAttention()(state, memory, memory)
    >>> keras.Model([state, memory], context).count_params()
    1
    """

    def build(self, query_shape, key_shape, value_shape):
        sharpness = math.sqrt(query_shape[-1])
        self.sharpness = self.add_weight(
            name="sharpness",
            shape=(query_shape[1],),
            # The number that `softplus` makes it from.
            initializer=keras.initializers.Constant(math.log(math.expm1(sharpness))),
        )
        self.built = True

    def score(self, query, key, query_offset):
        query, key = (ops.cast(directions(x), self.compute_dtype) for x in (query, key))
        cosines = tf.matmul(query, key, transpose_b=True)  # [B, H, T, S]
        cosines = ops.cast(cosines, keras.backend.result_type(cosines.dtype, "float32"))
        sharpness = ops.softplus(ops.cast(self.sharpness, cosines.dtype))  # [H]
        return cosines * ops.reshape(sharpness, (-1, 1, 1))
