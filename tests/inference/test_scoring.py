"""Log-probabilities and perplexities of given texts."""

import math

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.inference import Score, score_pairs
from tests.inference.shouting_model import ShoutingModel


def test_score_pairs_returns_scores_in_order():
    model = ShoutingModel()
    sources = ["x" * (1 + n % 3) for n in range(50)]
    targets = ["word " * (n % 5) for n in range(50)]
    scores = list(score_pairs(model, sources, iter(targets), window=16))
    assert [score.tokens for score in scores] == [n % 5 + 1 for n in range(50)]
    expected = [-(1 + n % 3) * (n % 5 + 1) for n in range(50)]
    assert [score.log_probability for score in scores] == expected
    assert [score.perplexity for score in scores] == [
        pytest.approx(math.exp(1 + n % 3)) for n in range(50)
    ]
    assert max(rows for _, rows in model.calls) == 16


def test_perplexity_of_a_sum_is_by_tokens():
    scores = score_pairs(ShoutingModel(), ["x", "xxx"], ["one two three", ""])
    total = sum(scores, Score(0.0, 0))
    assert total == Score(-4.0 - 3.0, 5)
    assert total.perplexity == pytest.approx(math.exp(7 / 5))


def test_perplexity_of_no_tokens_is_nan_and_of_tiny_probability_infinite():
    assert math.isnan(Score(0.0, 0).perplexity)
    assert Score(-1e6, 1).perplexity == math.inf


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (["a"], ["b", "c"], "the sources end after 1, but there are more targets."),
        (["a", "b", "c"], ["b", "c"], "the targets end after 2, but there are more sources."),
    ],
)
def test_score_pairs_with_different_counts_raises_an_error(sources, targets, message):
    with pytest.raises(UserError) as caught:
        list(score_pairs(ShoutingModel(), sources, targets))
    assert str(caught.value) == f"There must be as many sources as targets; {message}"


def test_score_pairs_of_an_encoder_raises_an_error():
    with pytest.raises(UserError, match="TextEncoder does not offer `score`"):
        score_pairs(ShoutingModel("TextEncoder"), [], [])
