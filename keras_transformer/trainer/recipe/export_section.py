"""The recipe's `export`: where the SavedModel goes."""

import dataclasses

from keras_transformer.checks import require_boolean, require_choice, require_text
from keras_transformer.trainer.recipe.section import Section, or_null, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSection(Section):
    """Where the SavedModel goes.

    Attributes:
        to: the directory of all models: the next version appears as DIR/<name>/<version>. Null is
            inside the run.
        weights: the type they are stored in: "float32", "float16" or "bfloat16".
        enabled: whether there is an export at all.
    """

    key = "export"

    to: str | None = setting(None, or_null(require_text))
    weights: str = setting("float32", require_choice, choices=("float32", "float16", "bfloat16"))
    enabled: bool = setting(True, require_boolean)
