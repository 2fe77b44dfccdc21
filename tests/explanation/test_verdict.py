"""What the numbers mean, in words."""

import numpy as np
import pytest

from keras_transformer.analysis.explain import judge
from tests.explanation.small_pair import make_explanation


@pytest.mark.parametrize(
    ("gradient", "moved", "finding"),
    [
        ([4, 3, 2, 1], 0.4, "fair"),
        ([-4, 3, -2, 1], 0.4, "fair"),  # signs do not count
        ([4, 3, 2, 1], 0.05, "unneeded"),
        ([4, 3, 2, 1], None, "fair"),
        ([5, 6, 7, 8, 3, 4, 1, 2], 0.4, "partly"),  # tau 12/28
        ([3, 4, 1, 2], 0.4, "apart"),  # tau 1/3: of four tokens, as much as chance gives
        ([2, 1, 4, 3], 0.4, "apart"),
        ([1, 1, 1, 1], 0.4, "open"),
    ],
)
def test_the_finding_follows_the_numbers(gradient, moved, finding):
    tokens = ("▁a",) * len(gradient)
    verdict = judge(make_explanation(tokens, gradient=np.array(gradient, float), moved=moved))
    assert verdict.finding == finding
    assert verdict.headline.startswith(
        "These weights should not be read as an explanation"
        if finding in ("apart", "unneeded")
        else ("These weights are a hint", "For this sentence", "Whether these weights")
    )


def test_reasons_have_the_numbers():
    verdict = judge(make_explanation(gradient=np.array([3.0, 4.0, 1.0, 2.0]), moved=0.4))
    assert verdict.reasons == (
        "Attention and gradient × input agree in part (tau 0.33) on the order of the source "
        "tokens, attention and erasure in part (tau 0.33).",
        "Attention and erasure have the same strongest source token for 0 of 2 target tokens; tau "
        "also counts the order of those that hardly matter.",
        "Shuffled weights move 40% of the probability to other tokens and change the likeliest one "
        "in 100% of cases: the model relies on what it attends to.",
        "Gradients and erasure agree well (tau 1.00) with one another.",
        "With 4 source tokens, two random orders have a tau between -0.49 and 0.49 in about two of "
        "three cases: smaller ones count as little.",
    )


def test_measures_that_contradict_one_another_are_told():
    explanation = make_explanation()
    explanation.measures["erasure"] = explanation.measures["gradient"][:, ::-1]
    reason = judge(explanation).reasons[3]
    assert reason == (
        "Gradients and erasure agree little (tau -1.00) with one another, so that none of the "
        "measures has the last word."
    )
