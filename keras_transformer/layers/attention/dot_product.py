"""Products of queries and keys, as they are."""

import keras
from keras import ops

from keras_transformer.layers.attention.mechanism import register_mechanism
from keras_transformer.layers.attention.scaled_dot_product import ScaledDotProduct


@register_mechanism("dot_product")
@keras.saving.register_keras_serializable(package="keras_transformer")
class DotProduct(ScaledDotProduct):
    """`softmax(q·k) v` (Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
    Translation", section 3.1, "dot").

    Without the square root of `ScaledDotProduct`, scores grow with the width of a head: for a few
    heads of a small width, or for the states of a recurrent network, which lie between -1 and 1.

    Arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = DotProduct()(state, memory, memory)
    >>> keras.Model([state, memory], context).output_shape
    (None, 1, 1, 16)
    """

    def score(self, query, key, query_offset):
        # Scaled in half precision, where products overflow, and scaled back where they do not.
        scaled = super().score(query, key, query_offset)
        scaled = ops.cast(scaled, keras.backend.result_type(scaled.dtype, "float32"))
        return scaled * query.shape[-1] ** 0.5
