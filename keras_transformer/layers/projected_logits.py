"""Logits that know what they were made from, so that a loss need not wait for all of them."""

import dataclasses
from typing import Any

# Keras hands tensors from model to loss and metrics as they are, and its own implicit masks ride
# along in the same way.
_ATTRIBUTE = "_keras_transformer_projection"


@dataclasses.dataclass(frozen=True)
class Projection:
    """How logits were made: `states · tableᵀ`.

    Attributes:
        states: `[N, M]`, one row for each row of logits.
        table: `[V, M]`.
        rows: the shape of the logits without their last axis, an int32 tensor of one dimension.
        is_training: whether the gradient is going to be asked for.
        found: what loss and metrics have computed from it, for one another.
    """

    states: Any
    table: Any
    rows: Any
    is_training: bool
    found: dict = dataclasses.field(default_factory=dict)


def remember_projection(logits, projection):
    """Marks logits `[..., V]` with the `Projection` that they came from, and returns them.

    What a graph makes and nobody uses is not computed. So when a loss takes the projection, the
    logits themselves are never there. Any operation on them gives a tensor without the mark.
    """
    setattr(logits, _ATTRIBUTE, projection)
    return logits


def projection_of(logits):
    """Returns the `Projection` that logits were made by, or None if it is not known."""
    return getattr(logits, _ATTRIBUTE, None)
