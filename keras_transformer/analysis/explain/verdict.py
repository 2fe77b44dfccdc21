"""Verdicts: whether attention explains a translation, in words."""

import dataclasses
import math

from keras_transformer.analysis.explain.agreement import chance_deviation
from keras_transformer.analysis.explain.explanation import MEASURES, Explanation

# No paper gives thresholds. These were chosen because they can be described in words.
#: Mean tau from which measures agree well: three of four pairs of tokens are in the same order.
AGREE_WELL = 0.5
#: Mean tau below which measures hardly agree: fewer than three of five pairs are.
AGREE_LITTLE = 0.2
#: Mean total variation below which shuffled weights hardly change the output: a tenth of the
#: probability has moved to other tokens.
HARDLY_CHANGED = 0.1

HEADLINES = {
    "unneeded": "Do not read these weights as an explanation: the model does not need them.",
    "apart": "Do not read these weights as an explanation: other measures hardly agree with them.",
    "partly": "These weights are a hint at best: other measures agree with them in part.",
    "fair": "For this sentence the weights are a fair explanation: other measures agree with them.",
    "open": "This sentence does not show whether the weights explain anything.",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Interpretation of an `Explanation`.

    Attributes:
        finding: A key of `HEADLINES`.
        reasons: Sentences with the numbers, the most important first.
    """

    finding: str
    reasons: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The finding in one sentence."""
        return HEADLINES[self.finding]


def judge(explanation: Explanation) -> Verdict:
    """Returns the `Verdict` on an `Explanation`.

    Weights that can be shuffled without changing the output explain nothing (`HARDLY_CHANGED`).
    Otherwise the mean of two taus decides, with gradients and with erasure (`AGREE_WELL`,
    `AGREE_LITTLE`). In a short sentence two random orders often agree as much; then the measures
    hardly agree.
    """
    length = len(explanation.source_tokens)
    gradient = explanation.agreement("attention", "gradient")
    erasure = explanation.agreement("attention", "erasure")
    others = explanation.agreement("gradient", "erasure")
    shuffled = explanation.change("shuffled")
    tau = (gradient.mean + erasure.mean) / 2
    reasons = [
        f"In the order of the source tokens, attention and {MEASURES['gradient']} "
        f"{describe_tau(gradient.mean)}; attention and erasure {describe_tau(erasure.mean)}.",
        "Attention and erasure have the same strongest source token for "
        f"{erasure.is_same.sum()} of {len(erasure.is_same)} target tokens. Tau also counts the "
        "order of tokens that hardly matter.",
    ]
    is_unneeded = False
    if shuffled is not None:
        moved = float(shuffled.total_variation.mean())
        is_unneeded = moved < HARDLY_CHANGED
        result = "the model relies on its attention weights"
        if is_unneeded:
            result = "the output hardly depends on the attention weights"
        reasons.append(
            f"Shuffled weights move {moved:.0%} of the probability to other tokens and change the "
            f"most likely token in {shuffled.is_other.mean():.0%} of the cases: {result}."
        )
    warning = ", so neither of them can be trusted alone" if others.mean < AGREE_LITTLE else ""
    deviation = f"{chance_deviation(length):.2f}"
    reasons += [
        f"Gradients and erasure {describe_tau(others.mean)}{warning}.",
        f"For {length} source tokens, two random orders have a tau between -{deviation} and "
        f"{deviation} in about two of three cases.",
    ]
    if is_unneeded:
        finding = "unneeded"
    elif math.isnan(tau):
        finding = "open"
    elif tau < max(AGREE_LITTLE, chance_deviation(length)):
        finding = "apart"
    else:
        finding = "partly" if tau < AGREE_WELL else "fair"
    return Verdict(finding, tuple(reasons))


def describe_tau(tau: float) -> str:
    """Returns a mean tau in words.

    >>> describe_tau(0.12)
    'hardly agree (tau 0.12)'
    """
    if math.isnan(tau):
        return "cannot be compared, because there is no order"
    if tau < AGREE_LITTLE:
        return f"hardly agree (tau {tau:.2f})"
    return f"agree {'in part' if tau < AGREE_WELL else 'well'} (tau {tau:.2f})"
