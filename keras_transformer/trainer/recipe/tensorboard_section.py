"""The recipe's `tensorboard`: what can be watched."""

import dataclasses

from keras_transformer.checks import require_boolean, require_integer, require_positive_integer
from keras_transformer.trainer.recipe.section import Section, or_null, setting


def _require_range(name, value):
    """Returns the first and the last of some updates."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(
            f"`{name}` must be a list of the first and the last update; got {value!r}."
        )
    first, last = (require_positive_integer(name, update) for update in value)
    if first > last:
        raise ValueError(f"`{name}` must not end before it begins; got {value!r}.")
    return first, last


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorboardSection(Section):
    """What can be watched in TensorBoard.

    Attributes:
        every: updates between scalars.
        attention: examples whose attention maps are drawn at each evaluation; 0 for none.
        samples: translations in the table of each evaluation; 0 for none.
        projector: whether the embeddings are shown with the vocabulary as labels.
        histograms: whether those of the weights are written; they make the logs large.
        profile: the first and the last update to profile, as `[100, 110]`; null for none.
    """

    key = "tensorboard"

    every: int = setting(50, require_positive_integer)
    attention: int = setting(2, require_integer, minimum=0)
    samples: int = setting(10, require_integer, minimum=0)
    projector: bool = setting(True, require_boolean)
    histograms: bool = setting(False, require_boolean)
    profile: tuple | None = setting(None, or_null(_require_range))
