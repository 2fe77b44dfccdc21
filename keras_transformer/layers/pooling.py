"""A sequence of vectors to one."""

import keras
from keras import ops

from keras_transformer._utils.checks import require_choice, require_rank


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Gathers a sequence into one vector, leaving out what is masked.

    Args:
        mode: "mean" or "max" over the positions that are not masked, or "first", the first
            position's vector.

    Call arguments:
        inputs: `[B, T, M]`, with an implicit Keras mask or an explicit `mask`, boolean `[B, T]`.

    Returns:
        `[B, M]`; zeros for a row that is masked whole.

    Example:

    >>> x = keras.Input((None, 64))
    >>> y = Pooling("mean")(x)
    >>> keras.Model(x, y).output_shape
    (None, 64)
    """

    def __init__(self, mode="mean", **kwargs):
        super().__init__(**kwargs)
        self.mode = require_choice("mode", mode, ("mean", "max", "first"))
        self.supports_masking = True

    def build(self, inputs_shape):
        self.built = True

    def call(self, inputs, mask=None, inputs_mask=None):
        require_rank("inputs", inputs, {3: "B, T, M"})
        mask = inputs_mask if mask is None else mask
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:2], dtype="bool")
        mask = ops.expand_dims(ops.cast(mask, "bool"), -1)  # [B, T, 1]
        if self.mode == "first":
            return ops.where(mask, inputs, 0)[:, 0]
        if self.mode == "max":
            pooled = ops.max(ops.where(mask, inputs, float("-inf")), axis=1)
            return ops.where(ops.any(mask, axis=1), pooled, 0)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)  # [B, 1]
        total = ops.sum(ops.cast(ops.where(mask, inputs, 0), "float32"), axis=1)  # [B, M]
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[-1])

    def get_config(self):
        return {**super().get_config(), "mode": self.mode}
