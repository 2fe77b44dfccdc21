"""Products of queries and keys with a learned matrix between them."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.layers.attention.mechanism import SoftmaxAttention, register_mechanism


@register_mechanism("scaled_dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ScaledDotProductAttention(SoftmaxAttention):
    """`softmax(q·k / sqrt(D)) v` (Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1).

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> query, memory = keras.Input((4, 10, 16)), keras.Input((4, 30, 16))
    >>> context = ScaledDotProductAttention()(query, memory, memory)
    >>> keras.Model([query, memory], context).output_shape
    (None, 4, 10, 16)
    """

    def score(self, query, key, query_offset):
        # The query is scaled, not the product: float16 overflows at 65,504.
        return tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)


@register_mechanism("dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class DotProductAttention(ScaledDotProductAttention):
    """`softmax(q·k) v` (Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
    Translation", section 3.1, "dot").

    Without the square root of `ScaledDotProductAttention`, scores grow with the width of a head: for a few
    heads of a small width, or for the states of a recurrent network, which lie between -1 and 1.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = DotProductAttention()(state, memory, memory)
    >>> keras.Model([state, memory], context).output_shape
    (None, 1, 1, 16)
    """

    def score(self, query, key, query_offset):
        # Scaled in half precision, where products overflow, and scaled back where they do not.
        scaled = super().score(query, key, query_offset)
        scaled = ops.cast(scaled, keras.backend.result_type(scaled.dtype, "float32"))
        return scaled * query.shape[-1] ** 0.5


@register_mechanism("general")
@keras.saving.register_keras_serializable(package="keras_transformer")
class GeneralAttention(DotProductAttention):
    """`softmax(q W k) v`, with a matrix W for each head.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "general". With one head it is the paper's. Within `MultiHeadAttention`, whose projections
    already stand between states and scores, W only adds to what they can do between them.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = GeneralAttention()(state, memory, memory)
    >>> keras.Model([state, memory], context).count_params()
    256
    """

    def build(self, query_shape, key_shape, value_shape):
        num_heads = query_shape[1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(num_heads, query_shape[-1], key_shape[-1]),
            # Glorot's uniform for each head: Keras counts the heads among a matrix's inputs.
            initializer=keras.initializers.VarianceScaling(num_heads, "fan_avg", "uniform"),
        )
        self.built = True

    def score(self, query, key, query_offset):
        turned = ops.einsum("bhtd,hde->bhte", query, self.kernel)
        return super().score(turned, key, query_offset)
