"""All that is known about why a model wrote what it wrote."""

import dataclasses
import math

import numpy as np

from keras_transformer.explanation.agreement import Agreement, over_numbers
from keras_transformer.explanation.kendall_tau import kendall_tau

#: The measures by name, as a person reads them.
MEASURES = {
    "attention": "attention",
    "rollout": "rollout",
    "gradient": "gradient × input",
    "erasure": "erasure",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """One sentence pair, measured in every way; see `explain`.

    Attributes:
        model: what the model is called.
        source, target: the texts.
        is_own: whether the target is the model's own translation.
        source_tokens: what a person reads for each source token, S strings, END among them.
        target_tokens: the same for what is written, T strings, END among them.
        read_tokens: the same for what the decoder reads: START, then those before the last.
        probabilities: of each target token, `[T]`.
        heads: attention weights `[N, H, ·, ·]` by kind: "cross" `[…, T, S]` and, as far as the
            model has them, "encoder" `[…, S, S]` and "decoder" `[…, T, T]`.
        measures: `[T, S]` by name of `MEASURES`. "attention" is the mean of all cross-attention
            heads. "gradient" and "erasure" have signs: above 0 a source token speaks for the target
            token. "rollout" is missing where a kind of weights is.
        changes: `WeightChange`s; none for a model whose weights cannot be changed.
        seed: of the random permutations.
    """

    model: str
    source: str
    target: str
    is_own: bool
    source_tokens: tuple
    target_tokens: tuple
    read_tokens: tuple
    probabilities: np.ndarray
    heads: dict
    measures: dict
    changes: tuple
    seed: int

    def agreement(self, first, second):
        """The `Agreement` of two measures, about sizes: signs do not count."""
        sizes = [np.abs(self.measures[name]) for name in (first, second)]
        strongest = [part.argmax(axis=1) for part in sizes]
        return Agreement(first, second, kendall_tau(*sizes), strongest[0] == strongest[1])

    def agreements(self):
        """The `Agreement` of each pair of measures."""
        names = list(self.measures)
        return [
            self.agreement(first, second)
            for number, first in enumerate(names)
            for second in names[number + 1 :]
        ]

    def head_agreements(self, measure):
        """The mean tau of each head of cross-attention with a measure, `[N, H]`."""
        taus = [
            [kendall_tau(head, np.abs(self.measures[measure])) for head in block]
            for block in self.heads["cross"]
        ]
        return over_numbers(np.nanmean, np.array(taus), axis=-1)

    def change(self, kind, block=None):
        """The `WeightChange` of a kind, in one block or in all, or None."""
        for each in self.changes:
            if (each.kind, each.block) == (kind, block):
                return each
        return None

    def as_dict(self):
        """All numbers, for JSON, which has none that is not a number."""
        return {
            "model": self.model,
            "source": self.source,
            "target": self.target,
            "is_own": self.is_own,
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "probabilities": _plain(self.probabilities),
            "attention_heads": {kind: _plain(part) for kind, part in self.heads.items()},
            "measures": {name: _plain(part) for name, part in self.measures.items()},
            "agreement": [
                {
                    "measures": [each.first, each.second],
                    "mean": _plain(each.mean),
                    "spread": _plain(each.spread),
                    "taus": _plain(each.taus),
                    "same_strongest": each.is_same.tolist(),
                }
                for each in self.agreements()
            ],
            "seed": self.seed,
            "changes": [
                {
                    "kind": each.kind,
                    "block": each.block,
                    "draws": len(each.total_variation),
                    "total_variation": _plain(each.total_variation.mean(axis=0)),
                    "divergence": _plain(each.divergence.mean(axis=0)),
                    "other_token": _plain(each.is_other.mean(axis=0)),
                }
                for each in self.changes
            ],
        }


def _plain(values):
    """Numbers as lists of floats of six digits, None for what is not a number."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_plain(part) for part in values]
    return round(float(values), 6) if math.isfinite(values) else None
