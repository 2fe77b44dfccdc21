"""Whether attention explains a translation, in words, from the numbers."""

import dataclasses
import math

from keras_transformer.analysis.explain.agreement import chance_spread
from keras_transformer.analysis.explain.explanation import MEASURES

# No paper sets bounds; these are ours, chosen so that they can be said in words.
#: A mean tau from which orders agree well: three of four pairs of tokens stand in the same order.
AGREE_WELL = 0.5
#: A mean tau below which they agree little: fewer than three of five pairs do.
AGREE_LITTLE = 0.2
#: A mean total variation below which shuffled weights change hardly anything: a tenth of the
#: probability has moved to other tokens.
HARDLY_CHANGED = 0.1

HEADLINES = {
    "unneeded": "These weights should not be read as an explanation: the model does not need them.",
    "apart": "These weights should not be read as an explanation: other measures hardly agree.",
    "partly": "These weights are a hint at best: other measures agree with them in part.",
    "fair": "For this sentence the weights are a fair account: other measures agree with them.",
    "open": "Whether these weights explain anything cannot be told from this sentence.",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the numbers say.

    Attributes:
        finding: a key of `HEADLINES`.
        reasons: sentences with the numbers, the weightiest first.
    """

    finding: str
    reasons: tuple

    @property
    def headline(self):
        return HEADLINES[self.finding]


def judge(explanation):
    """Returns the `Verdict` on an `Explanation`.

    Weights that can be shuffled without a change of the output are no explanation, whatever they
    look like (`HARDLY_CHANGED`). Of others, the mean of their two taus, with gradients and with
    erasure, decides (`AGREE_WELL`, `AGREE_LITTLE`); where a sentence is so short that two random
    orders would agree as much, they agree little.
    """
    places = len(explanation.source_tokens)
    erasure = explanation.agreement("attention", "erasure")
    taus = [explanation.agreement("attention", "gradient").mean, erasure.mean]
    shuffled = explanation.change("shuffled")
    change = None if shuffled is None else float(shuffled.total_variation.mean())
    reasons = [_about_order(taus), _about_strongest(erasure.is_same)]
    if change is not None:
        reasons.append(_about_change(change, shuffled))
    reasons.append(_about_others(explanation.agreement("gradient", "erasure").mean))
    reasons.append(_about_chance(places))
    return Verdict(_finding(taus, change, places), tuple(reasons))


def _finding(taus, change, places):
    tau = sum(taus) / len(taus)
    if change is not None and change < HARDLY_CHANGED:
        return "unneeded"
    if math.isnan(tau):
        return "open"
    if tau < max(AGREE_LITTLE, chance_spread(places)):
        return "apart"
    return "partly" if tau < AGREE_WELL else "fair"


def describe_tau(tau):
    """How much a mean tau is, in words.

    >>> describe_tau(0.12)
    'little (tau 0.12)'
    """
    if math.isnan(tau):
        return "on nothing that could be ordered"
    word = "little" if tau < AGREE_LITTLE else "in part" if tau < AGREE_WELL else "well"
    return f"{word} (tau {tau:.2f})"


def _about_order(taus):
    gradient, erasure = map(describe_tau, taus)
    return (
        f"Attention and {MEASURES['gradient']} agree {gradient} on the order of the source tokens, "
        f"attention and erasure {erasure}."
    )


def _about_strongest(is_same):
    return (
        f"Attention and erasure have the same strongest source token for {is_same.sum()} of "
        f"{len(is_same)} target tokens; tau also counts the order of those that hardly matter."
    )


def _about_change(change, shuffled):
    others = float(shuffled.is_other.mean())
    start = (
        f"Shuffled weights move {change:.0%} of the probability to other tokens and change the "
        f"likeliest one in {others:.0%} of cases"
    )
    if change < HARDLY_CHANGED:
        return f"{start}: the model says nearly the same whatever it attends to."
    return f"{start}: the model relies on what it attends to."


def _about_others(tau):
    text = f"Gradients and erasure agree {describe_tau(tau)} with one another"
    if tau < AGREE_LITTLE:
        return f"{text}, so that none of the measures has the last word."
    return f"{text}."


def _about_chance(places):
    spread = f"{chance_spread(places):.2f}"
    return (
        f"With {places} source tokens, two random orders have a tau between -{spread} and {spread} "
        "in about two of three cases: smaller ones count as little."
    )
