"""The Transformer's own attention."""

import keras
import tensorflow as tf

from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.softmax_attention import SoftmaxAttention


@register_mechanism("scaled_dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class ScaledDotProduct(SoftmaxAttention):
    """`softmax(q·k / sqrt(D)) v` (Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1).

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> query, memory = keras.Input((4, 10, 16)), keras.Input((4, 30, 16))
    >>> context = ScaledDotProduct()(query, memory, memory)
    >>> keras.Model([query, memory], context).output_shape
    (None, 4, 10, 16)
    """

    def score(self, query, key, query_offset):
        # The query is scaled, not the product: float16 overflows at 65,504.
        return tf.matmul(query * query.shape[-1] ** -0.5, key, transpose_b=True)
