"""Scores from the query alone, one for each place."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer.layers.attention.mechanism import SoftmaxAttention, register_mechanism


@register_mechanism("location_based")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LocationBasedAttention(SoftmaxAttention):
    """`softmax(W q) v`: the query says where to look, whatever is there. W is a head's own.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "location". W has a row for each place from 0 to `max_length` - 1; of more keys there is
    nothing to say, and they are an error, in eager code and in graphs. (Under XLA lengths are known
    and checked.) With a cache of fixed room, the room counts.

    Places are counted from the start of a row, so that documents packed into one are refused.

    Args:
        max_length: the most keys that there may be. Models give their own `max_length`.

    Other arguments and call arguments: see `AttentionMechanism`.

    Example:

    >>> state, memory = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = LocationBasedAttention(max_length=50)(state, memory, memory)
    >>> keras.Model([state, memory], context).count_params()
    800
    """

    supports_packing = False
    is_bounded = True
    reads_keys = False

    def __init__(self, max_length=1024, **kwargs):
        super().__init__(**kwargs)
        self.max_length = require_positive_integer("max_length", max_length)

    def build(self, query_shape, key_shape, value_shape):
        num_heads, width = query_shape[1], query_shape[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(num_heads, width, self.max_length),
            # Scores of variance 1 for queries of variance 1, however many places there are.
            initializer=keras.initializers.VarianceScaling(num_heads, "fan_in", "uniform"),
        )
        self.built = True

    def score(self, query, key, query_offset):
        length = key.shape[2]
        kernel = ops.convert_to_tensor(self.kernel)
        if length is None:
            length = tf.shape(key)[2]
            check = tf.debugging.Assert(length <= self.max_length, [self._message(), length])
            with tf.control_dependencies([check]):  # or shapes that do not fit may fail first
                kernel = tf.identity(kernel)
        elif length > self.max_length:
            raise ValueError(f"{self._message()} There are {length} keys.")
        return ops.einsum("bhtd,hds->bhts", query, kernel[:, :, :length])

    def _message(self):
        return (
            f"{type(self).__name__} '{self.name}' can look at places 0 to {self.max_length - 1} "
            f"(max_length={self.max_length}) and was given more keys. Shorten the input or the "
            "cache, or train with a larger max_length."
        )

    def get_config(self):
        return {**super().get_config(), "max_length": self.max_length}
