"""BLEU of a test set, computed by sacrebleu."""

from typing import Any

from keras_transformer._utils.checks import require_choice
from keras_transformer.metrics.registry import SacrebleuMetric, register_text_metric

#: Tokenizations that BLEU can count, by sacrebleu's names: "13a" and "intl" split raw text into
#: words, "zh" splits Chinese text, "char" splits into characters, "none" expects tokenized text.
BLEU_TOKENS = ("13a", "intl", "zh", "char", "none")


@register_text_metric("bleu")
class Bleu(SacrebleuMetric):
    """BLEU from 0 to 100, with sacrebleu's defaults.

    Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; Post
    2018, "A Call for Clarity in Reporting BLEU Scores".

    Options:
        tokenize: One of `BLEU_TOKENS`. Default "13a".

    >>> round(Bleu().compute(["The house is small."], ["The house is small."]), 2)
    100.0
    >>> Bleu().signature()
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:...'
    """

    title = "BLEU"

    def make(self, tokenize: str = "13a") -> Any:
        from sacrebleu.metrics.bleu import BLEU

        require_choice("tokenize", tokenize, BLEU_TOKENS)
        # `force` suppresses sacrebleu's warning about texts that look tokenized.
        return BLEU(tokenize=tokenize, force=True)
