"""The reference compared with hand calculations and with enumeration."""

import math

import numpy as np
import pytest

from tests.decoding import reference
from tests.decoding.reference import END, PADDING, START, Rules
from tests.decoding.toy_models import random_sources, random_tables, row_model


def fixed_model(*probabilities):
    """Returns a model with the same probabilities after any tokens."""
    return lambda ids: (np.log(np.array(probabilities)), None)


HALF_END = fixed_model(1e-9, 1e-9, 1e-9, 0.5, 0.3, 0.2)


def test_reference_scores_equal_hand_calculation():
    """Wu et al. 2016, equation 14."""
    best, *_ = reference.every_hypothesis(HALF_END, Rules(maximum=1), length_penalty=0.6)
    assert best.ids == (END,)
    assert best.score == pytest.approx(math.log(0.5))
    found = reference.follow((4, 5, END), HALF_END, Rules(), length_penalty=0.6)
    log_probability = math.log(0.3 * 0.2 * 0.5)
    assert found.log_probability == pytest.approx(log_probability)
    assert found.score == pytest.approx(log_probability / (8 / 6) ** 0.6)
    forced = reference.follow((4, 5, END), HALF_END, Rules(prefix=(4,)), length_penalty=1)
    assert forced.log_probability == pytest.approx(math.log(0.2 * 0.5))
    assert forced.score == pytest.approx(math.log(0.2 * 0.5) / (7 / 6))


def test_reference_coverage_equals_hand_calculation():
    attention = [[0.5, 0.5, 0.0], [0.7, 0.1, 0.2]]
    assert reference.coverage(attention) == pytest.approx(math.log(0.6) + math.log(0.2))
    assert reference.coverage([[1.0, 0.0]]) == pytest.approx(math.log(1e-6))


def test_reference_constraints_equal_hand_calculation():
    flat = np.full(8, -2.0)

    def excluded(constraint, ids):
        return np.flatnonzero(constraint(flat, ids) == -math.inf).tolist()

    assert excluded(reference.forbidden_tokens([5, 7]), ()) == [5, 7]
    assert excluded(reference.no_repeat_ngram(2), (4, 5, 6, 4)) == [5]
    assert excluded(reference.no_repeat_ngram(2), (4, 4)) == [4]
    assert excluded(reference.no_repeat_ngram(3), (4, 5, 6, 4, 5)) == [6]
    assert excluded(reference.no_repeat_ngram(3), (4, 5)) == []
    assert excluded(reference.no_repeat_ngram(1), (4, 7, END)) == [4, 7]
    assert reference.repetition_penalty(1.5)(flat, (4, 6, 4)).tolist() == [
        *(-2, -2, -2, -2, -3, -2, -3, -2)
    ]


def test_reference_lengths_equal_hand_calculation():
    assert reference.bounds(10, maximum=8) == (1, 8)
    assert reference.bounds(10, maximum=99, maximum_ratio=0.75, maximum_margin=2) == (1, 9)
    assert reference.bounds(10, maximum=8, minimum=2, minimum_ratio=0.35) == (3, 8)
    assert reference.bounds(10, maximum=8, minimum_ratio=2) == (8, 8)
    assert reference.bounds(0, maximum=8, maximum_ratio=1.0) == (1, 1)


def test_reference_sampling_probabilities_equal_hand_calculation():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    draw = reference.drawing_probabilities
    np.testing.assert_allclose(draw(logits), [0.5, 0.3, 0.15, 0.05])
    np.testing.assert_allclose(draw(logits, top_k=2), [0.625, 0.375, 0, 0])
    np.testing.assert_allclose(draw(logits, top_p=0.7), [0.625, 0.375, 0, 0])
    np.testing.assert_allclose(draw(logits, top_p=0.1), [1, 0, 0, 0])
    squares = np.array([25, 9, 2.25, 0.25]) / 36.5
    np.testing.assert_allclose(draw(logits, temperature=0.5), squares)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalties", [(0.0, 0.0), (0.6, 0.0), (1.5, 0.3)])
def test_reference_beam_search_with_all_beams_equals_enumeration(seed, penalties):
    """Five tokens are allowed: 1 + 4 + 16 + 64 sequences of at most four."""
    [source] = random_sources(seed, rows=1)
    model, rules = row_model(random_tables(seed), source), Rules(maximum=4)
    everything = reference.every_hypothesis(model, rules, *penalties)
    assert len(everything) == len({hypothesis.ids for hypothesis in everything}) == 85
    assert not {PADDING, START} & {token for found in everything for token in found.ids}
    total = sum(math.exp(found.log_probability) for found in everything)
    assert total < 1
    wide, _ = reference.beam_search(model, rules, 85, 85, *penalties)
    assert [found.ids for found in wide] == [found.ids for found in everything]
    [best], _ = reference.beam_search(model, rules, 85, 1, *penalties)
    assert best.ids == everything[0].ids


@pytest.mark.parametrize("seed", range(5))
def test_reference_beam_search_with_one_beam_equals_greedy_search(seed):
    [source] = random_sources(seed, rows=1)
    model = row_model(random_tables(seed), source)
    [beam], _ = reference.beam_search(model, Rules(), 1, 1, 0.6)
    greedy, _ = reference.greedy_search(model, Rules(), 0.6)
    assert (beam.ids, beam.score) == (greedy.ids, greedy.score)
