"""Verdicts in words, from numbers."""

import numpy as np
import pytest

from keras_transformer.analysis.explain import judge
from tests.analysis.explain.small_pair import make_explanation


@pytest.mark.parametrize(
    ("gradient", "moved", "finding"),
    [
        ([4, 3, 2, 1], 0.4, "fair"),
        ([-4, 3, -2, 1], 0.4, "fair"),  # signs do not matter
        ([4, 3, 2, 1], 0.05, "unneeded"),
        ([4, 3, 2, 1], None, "fair"),
        ([5, 6, 7, 8, 3, 4, 1, 2], 0.4, "partly"),  # tau 12/28
        ([3, 4, 1, 2], 0.4, "apart"),  # tau 1/3: for four tokens, not more than by chance
        ([2, 1, 4, 3], 0.4, "apart"),
        ([1, 1, 1, 1], 0.4, "open"),
    ],
)
def test_finding_follows_the_numbers(gradient, moved, finding):
    tokens = ("▁a",) * len(gradient)
    verdict = judge(make_explanation(tokens, gradient=np.array(gradient, float), moved=moved))
    assert verdict.finding == finding
    is_explanation = "Do not read" not in verdict.headline
    assert is_explanation == (finding not in ("apart", "unneeded"))


def test_reasons_contain_the_numbers():
    verdict = judge(make_explanation(gradient=np.array([3.0, 4.0, 1.0, 2.0]), moved=0.4))
    facts = (
        ("gradient × input", "erasure", "in part", "tau 0.33"),
        ("0 of 2 target tokens",),
        ("40%", "100%"),
        ("well", "tau 1.00"),
        ("4 source tokens", "-0.49", "0.49"),
    )
    for reason, expected in zip(verdict.reasons, facts, strict=True):
        assert all(fact in reason for fact in expected)


def test_contradicting_measures_are_reported():
    explanation = make_explanation()
    explanation.measures["erasure"] = explanation.measures["gradient"][:, ::-1]
    reason = judge(explanation).reasons[3]
    assert "hardly agree (tau -1.00)" in reason
