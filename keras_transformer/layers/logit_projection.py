"""Computes the loss from the inputs of the output layer instead of from its logits.

The logits `[B, T, V]` are by far the largest tensor of a training step. A loss that knows how they
were computed, `states · tableᵀ`, can do without them: see `losses/fused_cross_entropy.py`.

1. `TokenEmbedding`, as output layer, attaches a `LogitProjection` to the logits tensor that it
   returns. Keras passes outputs of a model to its loss and metrics with their Python attributes, as
   it does with implicit masks. An operation on the logits gives a tensor without the attribute.
2. In a graph, the loss computes from `LogitProjection.of(logits)` only, so that nothing depends on
   the logits and TensorFlow never computes them.
3. Loss and metrics need the same sums over tokens. The first of them stores its result in
   `LogitProjection.results`, the others reuse it.
"""

import dataclasses
from typing import Any, Self

import tensorflow as tf

_ATTRIBUTE = "_keras_transformer_logit_projection"


@dataclasses.dataclass(frozen=True, eq=False)
class LogitProjection:
    """The inputs of an output layer that computed logits as `states · tableᵀ`.

    Attributes:
        states: `[N, M]`, one row for each row of logits.
        table: `[V, M]`.
        leading_shape: The shape of the logits without their last axis, an int32 tensor `[rank]`.
        is_training: Whether the gradient will be needed.
        results: Sums over tokens that have been computed from the projection, for reuse.
    """

    states: tf.Tensor
    table: tf.Tensor
    leading_shape: tf.Tensor
    is_training: bool
    results: list[Any] = dataclasses.field(default_factory=list)

    def attach_to(self, logits: tf.Tensor) -> tf.Tensor:
        """Attaches the projection to the logits `[…, V]` and returns them."""
        setattr(logits, _ATTRIBUTE, self)
        return logits

    @classmethod
    def of(cls, logits: Any) -> Self | None:
        """Returns the projection that is attached to logits, or None."""
        return getattr(logits, _ATTRIBUTE, None)
