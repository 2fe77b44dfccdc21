"""Pooling of a sequence of vectors into one vector."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_transformer._utils.checks import require_boolean, require_choice, require_rank
from keras_transformer._utils.configuration import ConfiguredLayer
from keras_transformer._utils.types import Shape


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(ConfiguredLayer):
    """Pools the unmasked positions of a sequence into one vector.

    Args:
        mode: "mean" or "max" of the unmasked positions, or the "first" position. Default "mean".
        normalize: Boolean. Whether vectors are scaled to length 1, so that their dot product is
            their cosine. Default False.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: `[B, T, M]`.
        mask: Boolean `[B, T]`. Default None: the implicit Keras mask of the inputs, if any.
        inputs_mask: The same; Keras uses this name if there are several tensors.

    Returns:
        `[B, M]`; zeros for a row without any unmasked position.

    >>> x = keras.Input((None, 64))
    >>> Pooling("mean")(x).shape
    (None, 64)
    """

    def __init__(self, mode: str = "mean", normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.normalize: bool = require_boolean("normalize", normalize)
        self.mode: str = require_choice("mode", mode, ("mean", "max", "first"))
        self.supports_masking = True

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        inputs_mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        require_rank("inputs", inputs, {3: "B, T, M"})
        mask = inputs_mask if mask is None else mask
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:2], dtype="bool")
        pooled = self._pool(inputs, ops.expand_dims(ops.cast(mask, "bool"), -1))
        if not self.normalize:
            return pooled
        vectors = ops.cast(pooled, "float32")
        length = ops.sqrt(ops.sum(ops.square(vectors), axis=-1, keepdims=True))
        return ops.cast(vectors / ops.maximum(length, 1e-12), self.compute_dtype)

    def _pool(self, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns `[B, M]` of inputs `[B, T, M]` and a mask `[B, T, 1]`."""
        if self.mode == "first":
            return ops.where(mask, inputs, 0)[:, 0]
        if self.mode == "max":
            pooled = ops.max(ops.where(mask, inputs, float("-inf")), axis=1)
            return ops.where(ops.any(mask, axis=1), pooled, 0)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)  # [B, 1]
        total = ops.sum(ops.cast(ops.where(mask, inputs, 0), "float32"), axis=1)  # [B, M]
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], inputs_shape[-1])
