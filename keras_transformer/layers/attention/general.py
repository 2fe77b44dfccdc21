"""Products of queries and keys with a learned matrix between them."""

import keras
from keras import ops

from keras_transformer.layers.attention.dot_product import DotProduct
from keras_transformer.layers.attention.mechanism import register_mechanism


@register_mechanism("general")
@keras.saving.register_keras_serializable(package="keras_transformer")
class General(DotProduct):
    """`softmax(q W k) v`, with a matrix W for each head.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "general". With one head it is the paper's. Within `MultiHeadAttention`, whose projections
    already stand between states and scores, W only adds to what they can do between them.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = General()(state, memory, memory)
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
