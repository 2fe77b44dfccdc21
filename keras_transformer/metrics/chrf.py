"""chrF of a test set, computed by sacrebleu."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.metrics.registry import SacrebleuMetric, register_text_metric


@register_text_metric("chrf")
class Chrf(SacrebleuMetric):
    """Character n-gram F-score from 0 to 100, with sacrebleu's defaults.

    Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".

    >>> round(Chrf().compute(["The house is small."], ["The house is small."]), 2)
    100.0
    """

    title = "chrF"

    def sentence_scores(
        self, hypotheses: Sequence[str], references: Sequence[str], **options: Any
    ) -> list[float]:
        metric = self.make(**options)
        return [
            metric.sentence_score(hypothesis, [reference]).score
            for hypothesis, reference in zip(hypotheses, references, strict=True)
        ]

    def make(self) -> Any:
        from sacrebleu.metrics.chrf import CHRF

        return CHRF()
