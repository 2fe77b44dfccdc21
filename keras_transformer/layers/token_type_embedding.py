"""Embedding of token types: the number of the text that a token belongs to."""

from typing import Any

import keras
import tensorflow as tf

from keras_transformer._utils.checks import require_integer, require_positive_integer
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.types import Shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenTypeEmbedding(ConfiguredLayer):
    """Adds a trained vector for the text of a pair that a token belongs to.

    Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers", section 3, "segment
    embeddings". Each text ends with a separator. The type of a token is the number of separators
    before it, at most `num_types - 1`, so all tokens of a single text have type 0.

    Args:
        num_types: Integer. Number of types.
        separator_id: Integer. Token id of the separator.
        embeddings_initializer: Initializer of the table. Default None: normal, deviation 0.02.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Embeddings `[B, T, M]`.
        ids: Integer token ids `[B, T]`.

    >>> embedded, ids = keras.Input((None, 64)), keras.Input((None,), dtype="int32")
    >>> outputs = TokenTypeEmbedding(num_types=2, separator_id=3)(embedded, ids)
    >>> keras.Model([embedded, ids], outputs).count_params()
    128
    """

    def __init__(
        self, num_types: int, separator_id: int, embeddings_initializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_types: int = require_positive_integer("num_types", num_types)
        self.separator_id: int = require_integer("separator_id", separator_id, minimum=0)
        initializer = embeddings_initializer or keras.initializers.RandomNormal(stddev=0.02)
        self.embeddings_initializer: Any = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, inputs_shape: Shape, ids_shape: Shape | None = None) -> None:
        shape = (self.num_types, inputs_shape[-1])
        self.embeddings: keras.Variable = self.new_weight(
            "embeddings", shape, self.embeddings_initializer
        )

    def call(self, inputs: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        is_separator = tf.cast(tf.equal(ids, self.separator_id), tf.int32)
        types = tf.cumsum(is_separator, axis=1, exclusive=True)  # [B, T]
        types = tf.minimum(types, self.num_types - 1)
        return inputs + tf.gather(self.embeddings, types)

    def compute_output_shape(self, inputs_shape: Shape, ids_shape: Shape | None = None) -> Shape:
        return inputs_shape
