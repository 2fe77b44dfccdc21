"""The recipe's `batches`: how many tokens at once."""

import dataclasses

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_integer,
    require_positive_integer,
)
from keras_transformer.trainer.recipe.section import Section, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchesSection(Section):
    """How many tokens at once; see `choose_buckets` and `PackedBatches`.

    Attributes:
        tokens: the budget of a batch: its rows times its longest sequence are never more. 4,096 is
            fairseq's usual one.
        max_length: tokens of the longest sequence, END included; the width of packed rows.
        too_long: "skip" or "truncate" what is longer. Packed documents are cut into pieces instead.
        max_buckets: how many shapes of batches there may be; XLA compiles each by itself.
        accumulate: batches in an update: their gradients are summed first, as if they were one.
        packed: whether a language model's rows hold several documents each.
    """

    key = "batches"

    tokens: int = setting(4096, require_positive_integer)
    max_length: int = setting(256, require_integer, minimum=2)
    too_long: str = setting("skip", require_choice, choices=("skip", "truncate"))
    max_buckets: int = setting(20, require_positive_integer)
    accumulate: int = setting(1, require_positive_integer)
    packed: bool = setting(False, require_boolean)

    def disagreements(self):
        if self.tokens < self.max_length:
            yield (
                "`batches.tokens` must be at least `batches.max_length`, or a batch cannot hold "
                f"the longest sequence; got {self.tokens} and {self.max_length}."
            )
