"""How long each model of a comparison trains."""

import dataclasses

from keras_transformer.checks import require_positive, require_positive_integer
from keras_transformer.trainer.recipe.section import Section, or_null, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget(Section):
    """What every model may use; without either, it is the recipe's `steps` or `epochs`.

    All models see the same batches, so that the same number of updates is the same tokens.

    Attributes:
        tokens: target tokens, padding left out. They become a whole number of updates, the same for
            all models.
        seconds: of training, without evaluations. How many updates a model makes in that time is
            measured first, in a short trial, so that its schedule knows where it ends.
    """

    key = "budget"

    tokens: int | None = setting(None, or_null(require_positive_integer))
    seconds: float | None = setting(None, or_null(require_positive))

    def disagreements(self):
        if self.tokens is not None and self.seconds is not None:
            yield (
                "`budget.tokens` and `budget.seconds` exclude each other: got "
                f"{self.tokens} and {self.seconds}. Leave one of them out."
            )
