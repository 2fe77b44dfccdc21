"""Sampling: draws, their frequencies and their seeds."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import GreedySearch, SamplingSearch
from keras_transformer.decoding.constraints import MINUS_INFINITY
from tests.decoding import reference
from tests.decoding.agreement import (
    assert_follows,
    assert_same_found,
    assert_well_formed,
    found_ids,
)
from tests.decoding.reference import END, Rules
from tests.decoding.toy_models import (
    CountdownModel,
    PromptModel,
    TableModel,
    at_most,
    random_sources,
    random_tables,
    row_model,
)

TABLES = random_tables(11, vocabulary=8, scale=1.0)
SOURCES = random_sources(11, rows=5, vocabulary=8)
MODEL = TableModel(TABLES)


def sampling(maximum=6, **settings):
    return SamplingSearch(lengths=at_most(maximum), **settings)


# --- seeds ----------------------------------------------------------------------------------------


def test_sampling_with_same_seed_repeats_draws():
    search = sampling(samples=4)
    first, again, other = (search(MODEL, SOURCES, seed=seed) for seed in (7, 7, 8))
    assert_same_found(first, again, atol=0)
    differing = [a != b for a, b in zip(found_ids(first), found_ids(other), strict=True)]
    assert sum(differing) >= 4


def test_sampling_of_row_ignores_other_rows():
    """A row's draws are the same with other rows in the batch, more or fewer."""
    search = sampling(samples=3)
    together = found_ids(search(MODEL, SOURCES, seed=7))
    other_neighbors = SOURCES[[0, 4, 2, 1, 3]]
    for row in (0, 2):
        assert found_ids(search(MODEL, other_neighbors, seed=7))[row] == together[row]
    assert found_ids(search(MODEL, SOURCES[:2], seed=7)) == together[:2]


def test_sampling_of_part_with_row_numbers_equals_whole_batch():
    search = sampling(samples=3)
    together = found_ids(search(MODEL, SOURCES, seed=7))
    part = search(MODEL, SOURCES[[3, 1]], seed=7, rows=tf.constant([3, 1]))
    assert found_ids(part) == [together[3], together[1]]


def test_sampling_of_equal_rows_draws_independently():
    same = np.repeat(SOURCES[:1], 12, axis=0)
    found = found_ids(sampling()(MODEL, same, seed=7))
    assert len({row[0] for row in found}) > 6


# --- draws ----------------------------------------------------------------------------------------

SETTINGS = [
    {},
    {"temperature": 0.5},
    {"top_k": 3},
    {"top_k": 100},
    {"top_p": 0.6},
    {"top_p": 1.0},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.7},
]


def name_of(settings):
    return "-".join(f"{name}={value}" for name, value in settings.items()) or "plain"


@pytest.mark.parametrize("settings", SETTINGS, ids=name_of)
def test_sampling_frequencies_equal_probabilities(settings):
    """Chi-square of the first two tokens of 6,000 texts, drawn in one batch.

    The second token would show rows that share their draws with the first one.
    """
    source, draws = SOURCES[0], 6000
    found = sampling(maximum=3, samples=draws // 20, **settings)(
        MODEL, np.repeat(source[None], 20, axis=0), seed=5
    )
    model, rules = row_model(TABLES, source), Rules(maximum=3)
    expected = {}
    for first, probability in enumerate(drawn_from(model, rules, (), settings)):
        if first == END:
            expected[(END,)] = probability
        elif probability:
            seconds = drawn_from(model, rules, (first,), settings)
            expected |= {(first, second): probability * p for second, p in enumerate(seconds)}
    assert sum(expected.values()) == pytest.approx(1)
    counts = dict.fromkeys(expected, 0)
    for row in found_ids(found):
        for ids in row:
            counts[ids[:2]] += 1
    assert sum(counts.values()) == draws
    assert_chi_square(counts, expected, draws)


@pytest.mark.parametrize("distance", [1, 1000])
def test_sampling_of_two_rows_is_independent(distance):
    """Chi-square of 3,000 pairs that two rows draw."""
    rows = 3000 + distance
    found = sampling(maximum=2)(MODEL, np.repeat(SOURCES[:1], rows, axis=0), seed=6)
    first = found.ids[:, 0, 0].numpy()
    pairs = list(zip(first[:-distance].tolist(), first[distance:].tolist(), strict=True))
    model, rules = row_model(TABLES, SOURCES[0]), Rules(maximum=2)
    probabilities = drawn_from(model, rules, (), {})
    expected = {
        (one, other): p * q
        for one, p in enumerate(probabilities)
        for other, q in enumerate(probabilities)
    }
    counts = {cell: pairs.count(cell) for cell in expected}
    assert_chi_square(counts, expected, len(pairs))


def drawn_from(model, rules, ids, settings):
    changed = reference.choices(reference.log_softmax(model(ids)[0]), ids, rules)
    return reference.drawing_probabilities(changed, **settings)


def test_sampling_never_draws_improbable_token():
    """A large vocabulary needs many random numbers, here sixty million; none may be too extreme."""
    model = CountdownModel(vocabulary=2**15)

    @tf.function
    def draw(seed):
        return sampling(maximum=21)(model, tf.fill([32, 1], 20), seed=seed)

    for seed in range(3):
        assert found_ids(draw(tf.constant(seed))) == [[(model.said,) * 20 + (END,)]] * 32


def assert_chi_square(counts, expected, draws):
    """Checks counts; cells with fewer than five expected draws are merged."""
    assert all(counts[cell] == 0 for cell, p in expected.items() if p == 0)
    rare = {cell for cell, p in expected.items() if 0 < p * draws < 5}
    cells = [(counts[cell], p * draws) for cell, p in expected.items() if p and cell not in rare]
    if sum(expected[cell] * draws for cell in rare) >= 5:
        cells.append(
            (sum(counts[cell] for cell in rare), sum(expected[cell] * draws for cell in rare))
        )
    chi_square = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
    freedom = len(cells) - 1
    # Wilson and Hilferty's cube root, four standard deviations out: one seed in 30,000.
    limit = freedom and freedom * (1 - 2 / (9 * freedom) + 4 * (2 / (9 * freedom)) ** 0.5) ** 3
    assert chi_square <= limit + 1e-6, (chi_square, freedom)


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[-1]], ids=name_of)
def test_sampling_scores_equal_log_probabilities(settings):
    """Temperature, `top_k` and `top_p` change the choice of tokens, not their scores."""
    search = sampling(samples=6, length_penalty=0.6, with_alignment=True, **settings)
    found = search(MODEL, SOURCES, seed=3)
    assert_well_formed(found, hypotheses=6)
    models = [row_model(TABLES, source) for source in SOURCES]
    assert_follows(found, models, [Rules(maximum=6)] * len(SOURCES), 0.6)


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-9}])
def test_sampling_of_one_candidate_equals_greedy_search(settings):
    greedy = GreedySearch(lengths=at_most(6))(MODEL, source=SOURCES)
    found = sampling(samples=2, **settings)(MODEL, SOURCES, seed=3)
    for place in range(2):
        ids = [[row[place]] for row in found_ids(found)]
        assert ids == found_ids(greedy)
        np.testing.assert_allclose(found.score[:, place], greedy.score[:, 0], atol=1e-5)


def test_sampling_of_prompts_follows_constraints():
    prompts = [(), (4, 5, 6), (7,)]
    padded = np.array([[0, 0, 0], [4, 5, 6], [7, 0, 0]])
    search = sampling(maximum=5, samples=3, length_penalty=0.6)
    found = search(PromptModel(TABLES), prefix=padded, seed=2)
    rules_of_rows = [Rules(prefix=prompt, maximum=5) for prompt in prompts]
    assert_follows(found, [row_model(TABLES)] * 3, rules_of_rows, 0.6)


@pytest.mark.parametrize("temperature", [1e-40, 1e-20, 1e4, 1e30])
def test_extreme_temperatures_in_a_graph_never_draw_forbidden_tokens(temperature):
    allowed = [3, 4]
    scores = np.full((200, 8), MINUS_INFINITY, np.float32)
    scores[:, allowed] = [-100.0, -101.0]
    search = SamplingSearch(temperature=tf.constant(temperature))
    seed = (tf.constant(7, tf.int64), tf.range(200))
    drawn = search._draw(tf.constant(scores), tf.constant(1), seed)
    assert set(drawn.numpy()) <= set(allowed)
