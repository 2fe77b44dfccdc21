"""Location-based attention: scores from the query alone."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_positive_integer
from keras_transformer._utils.types import Shape
from keras_transformer.layers.attention.mechanism import (
    Integer,
    SoftmaxAttention,
    register_mechanism,
    require_length,
)


@register_mechanism("location_based")
@keras.saving.register_keras_serializable(package="keras_transformer")
class LocationBasedAttention(SoftmaxAttention):
    """Attention `softmax(W q) v`, with weights that depend on the query only; each head has its W.

    Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section
    3.1, "location". W has a row for each position from 0 to `max_length` - 1; more keys, or a fixed
    KV cache with space for more, are an error.

    Args:
        max_length: Integer. Largest number of keys; models pass their own. Default 1024.
        dropout: Float. Dropout rate of the attention weights. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    >>> state, source = keras.Input((1, 1, 16)), keras.Input((1, 30, 16))
    >>> context = LocationBasedAttention(max_length=50)(state, source, source)
    >>> keras.Model([state, source], context).count_params()
    800
    """

    supports_packing = False
    supports_coverage = False
    has_max_length = True
    reads_keys = False

    def __init__(self, max_length: int = 1024, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(dropout=dropout, **kwargs)
        self.max_length: int = require_positive_integer("max_length", max_length)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shape = (query_shape[1], query_shape[-1], self.max_length)
        # Scores of variance 1 for queries of variance 1, for any number of positions.
        initializer = keras.initializers.VarianceScaling(shape[0], "fan_in", "uniform")
        self.kernel: keras.Variable = self.new_weight("kernel", shape, initializer)

    def compute_scores(self, query: tf.Tensor, key: tf.Tensor, query_offset: Integer) -> tf.Tensor:
        problem = (
            f"{type(self).__name__} '{self.name}' has scores for positions 0 to "
            f"{self.max_length - 1} (max_length={self.max_length}) and received more keys"
        )
        fix = "Shorten the input or the cache, or train with a larger max_length."
        length = require_length(ops.shape(key)[2], self.max_length, problem, fix)
        kernel = ops.convert_to_tensor(self.kernel)[:, :, :length]
        return ops.einsum("bhtd,hds->bhts", query, kernel)
