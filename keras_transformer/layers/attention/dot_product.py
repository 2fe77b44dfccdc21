"""Dot-product attention: plain, scaled, and with a learned matrix."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    Integer,
    SoftmaxAttention,
    at_least_float32,
    register_mechanism,
)


@register_mechanism("scaled_dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ScaledDotProductAttention(SoftmaxAttention):
    """Attention `softmax(q·k / sqrt(D)) v`.

    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> query, source = keras.Input((4, 10, 16)), keras.Input((4, 30, 16))
    >>> ScaledDotProductAttention()(query, source, source).shape
    (None, 4, 10, 16)
    """

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        # The query is scaled, not the product, which overflows in float16 above 65,504.
        return tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)


@register_mechanism("dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class DotProductAttention(ScaledDotProductAttention):
    """Attention `softmax(q·k) v`.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "dot". Scores grow with the size of a head, which suits small heads and recurrent states.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> state, source = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> DotProductAttention()(state, source, source).shape
    (None, 1, 1, 16)
    """

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        # Half precision overflows without the scale, so it is removed in float32.
        scaled = at_least_float32(super().compute_scores(query, key, query_offset))
        return scaled * query.shape[-1] ** 0.5


@register_mechanism("general")
@keras.saving.register_keras_serializable(package="keras_transformer")
class GeneralAttention(DotProductAttention):
    """Attention `softmax(q W k) v`, with a matrix W for each head.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "general". `MultiHeadAttention` applies W in addition to its projections.

    Args:
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> state, source = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = GeneralAttention()(state, source, source)
    >>> keras.Model([state, source], context).count_params()
    256
    """

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shape = (query_shape[1], query_shape[-1], key_shape[-1])
        # Glorot uniform for each head: Keras counts the heads as inputs of the matrix.
        initializer = keras.initializers.VarianceScaling(shape[0], "fan_avg", "uniform")
        self.kernel: keras.Variable = self.new_weight("kernel", shape, initializer)

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        projected = ops.einsum("bhtd,hde->bhte", query, self.kernel)
        return super().compute_scores(projected, key, query_offset)
