"""The recipe's `checkpoints`: what is kept, and which weights become the model."""

import dataclasses

from keras_transformer.checks import require_choice, require_positive_integer
from keras_transformer.trainer.recipe.section import Section, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointsSection(Section):
    """What is kept, and which weights become the model.

    Attributes:
        every: updates between checkpoints.
        keep: the last so many are kept.
        average: the last so many are averaged at the end, if `final` asks for it; 5 is the paper's
            number for its base models (§6.1).
        final: the weights that become the model: "average", "last", "best" by the evaluation's
            metric, or "ema", the moving average of `training.ema`.
    """

    key = "checkpoints"

    every: int = setting(1000, require_positive_integer)
    keep: int = setting(5, require_positive_integer)
    average: int = setting(5, require_positive_integer)
    final: str = setting("average", require_choice, choices=("average", "best", "last", "ema"))

    def disagreements(self):
        if self.average > self.keep:
            yield (
                "`checkpoints.average` must not be more than `checkpoints.keep`; got "
                f"{self.average} and {self.keep}. Keep more, or average fewer."
            )
