"""Several documents in one row, each kept to itself."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_integer


@keras.saving.register_keras_serializable(package="keras_transformer")
class PackedSegments(keras.layers.Layer):
    """Who may attend to whom, and positions, where a row holds several documents.

    Args:
        padding_number: the number that stands for no document.

    Call arguments:
        inputs: integers `[B, T]`, the same within a document, different in all others of its row.

    Returns:
        attention mask, boolean `[B, T, T]`: True within a document;
        positions, int32 `[B, T]`: counted from 0 in each document.

    Example:

    >>> segments = ops.convert_to_tensor([[1, 1, 1, 2, 2, 0]])
    >>> mask, positions = PackedSegments()(segments)
    >>> positions.numpy()
    array([[0, 1, 2, 0, 1, 0]], dtype=int32)
    """

    def __init__(self, padding_number=0, **kwargs):
        super().__init__(**kwargs)
        self.padding_number = require_integer("padding_number", padding_number, minimum=0)

    def build(self, inputs_shape):
        self.built = True

    def call(self, inputs):
        rows, columns = ops.expand_dims(inputs, 2), ops.expand_dims(inputs, 1)
        is_document = ops.not_equal(rows, self.padding_number)  # [B, T, 1]
        is_together = ops.logical_and(ops.equal(rows, columns), is_document)  # [B, T, T]
        index = ops.arange(ops.shape(inputs)[1], dtype="int32")
        is_before = ops.expand_dims(index, 1) > ops.expand_dims(index, 0)  # [T, T]
        earlier = ops.logical_and(is_together, is_before)
        return is_together, ops.sum(ops.cast(earlier, "int32"), axis=-1)

    def compute_output_spec(self, inputs):
        mask_shape, positions_shape = self.compute_output_shape(inputs.shape)
        return (
            keras.KerasTensor(mask_shape, dtype="bool"),
            keras.KerasTensor(positions_shape, dtype="int32"),
        )

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape, inputs_shape[-1]), inputs_shape

    def get_config(self):
        return {**super().get_config(), "padding_number": self.padding_number}
