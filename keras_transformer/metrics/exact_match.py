"""Share of texts that equal their reference."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.metrics.registry import TextMetric, register_text_metric


@register_text_metric("exact_match")
class ExactMatch(TextMetric):
    """Share of hypotheses that equal their reference, from 0 to 1.

    White space at the ends of a text is ignored.

    >>> ExactMatch().compute(["7 March", "8 March "], ["7 May", "8 March"])
    0.5
    """

    title = "exact match"
    value_format = "{:.1%}"

    def compute(
        self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ) -> float:
        pairs = zip(hypotheses, references, strict=True)
        return sum(ours.strip() == theirs.strip() for ours, theirs in pairs) / len(hypotheses)
