"""Attention mask and positions of documents that are packed into one row."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_integer
from keras_transformer._utils.configuration import ConfiguredLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class PackedSegments(ConfiguredLayer):
    """Computes the attention mask and the positions of rows that hold several documents.

    Args:
        padding_segment: Integer. The segment number of padding. Default 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Integers `[B, T]`, the numbers of the documents that tokens belong to.

    Returns:
        A tuple of the attention mask, boolean `[B, T, T]`, True within a document; and the
        positions, int32 `[B, T]`, counted from 0 in each document.

    >>> segments = ops.convert_to_tensor([[1, 1, 1, 2, 2, 0]])
    >>> mask, positions = PackedSegments()(segments)
    >>> positions.numpy()
    array([[0, 1, 2, 0, 1, 0]], dtype=int32)
    """

    def __init__(self, padding_segment: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.padding_segment: int = require_integer("padding_segment", padding_segment, minimum=0)

    def call(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows, columns = ops.expand_dims(inputs, 2), ops.expand_dims(inputs, 1)
        is_document = ops.not_equal(rows, self.padding_segment)  # [B, T, 1]
        is_together = ops.logical_and(ops.equal(rows, columns), is_document)  # [B, T, T]
        index = ops.arange(ops.shape(inputs)[1], dtype="int32")
        is_before = ops.expand_dims(index, 1) > ops.expand_dims(index, 0)  # [T, T]
        earlier = ops.logical_and(is_together, is_before)
        return is_together, ops.sum(ops.cast(earlier, "int32"), axis=-1)

    def compute_output_spec(self, inputs: Any) -> tuple[keras.KerasTensor, ...]:
        mask = keras.KerasTensor((*inputs.shape, inputs.shape[-1]), dtype="bool")
        return mask, keras.KerasTensor(inputs.shape, dtype="int32")
