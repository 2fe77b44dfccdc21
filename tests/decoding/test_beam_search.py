"""Beam search compared with the reference, with enumeration, and with itself."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from keras_transformer.decoding import BeamSearch, GreedySearch, LengthLimits
from tests.decoding import reference
from tests.decoding.agreement import assert_agrees, assert_same_found, found_ids, row_of
from tests.decoding.reference import END, Rules
from tests.decoding.toy_models import (
    GROUPS,
    PHASES,
    TableModel,
    Tables,
    at_most,
    random_sources,
    random_tables,
    row_model,
)


def expected_of(tables, sources, rules, **settings):
    return [reference.beam_search(row_model(tables, row), rules, **settings) for row in sources]


@st.composite
def beam_settings(draw):
    beams = draw(st.integers(1, 6))
    return {
        "beams": beams,
        "n_best": draw(st.integers(1, beams)),
        "length_penalty": draw(st.sampled_from([0.0, 0.6, 1.0, 2.5])),
        "coverage_penalty": draw(st.sampled_from([0.0, 0.2, 1.0])),
    }


# Each example is a whole search: shrinking a failing one would take minutes.
@hypothesis.settings(max_examples=20, phases=[hypothesis.Phase.generate])
@hypothesis.given(
    settings=beam_settings(),
    maximum=st.integers(1, 8),
    minimum=st.integers(1, 3),
    vocabulary=st.integers(6, 8),
    end=st.sampled_from([-3.0, 0.0, 2.0]),
    shares_memory=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_beam_search_equals_reference(
    settings, maximum, minimum, vocabulary, end, shares_memory, seed
):
    tables = random_tables(seed, vocabulary, end=end)
    sources = random_sources(seed, rows=24, vocabulary=vocabulary)
    minimum = min(minimum, maximum)
    search = BeamSearch(lengths=at_most(maximum, minimum), with_alignment=True, **settings)
    rules = Rules(minimum=minimum, maximum=maximum)
    assert_agrees(
        search(TableModel(tables, shares_memory), source=sources),
        expected_of(tables, sources, rules, **settings),
        settings["n_best"],
    )


@pytest.mark.parametrize(
    ("penalties", "n_best"), [((0.0, 0.0), 40), ((0.6, 0.0), 1), ((1.0, 0.3), 40), ((3.0, 0.0), 1)]
)
def test_beam_search_with_enough_beams_equals_enumeration(penalties, n_best):
    """Four tokens are allowed: 1 + 3 + 9 + 27 sequences of at most four."""
    tables, sources = random_tables(3, vocabulary=6), random_sources(3, rows=8, vocabulary=6)
    search = BeamSearch(
        beams=40,
        n_best=n_best,
        length_penalty=penalties[0],
        coverage_penalty=penalties[1],
        lengths=at_most(4),
    )
    expected = []
    for source in sources:
        everything = reference.every_hypothesis(
            row_model(tables, source), Rules(maximum=4), *penalties
        )
        assert len(everything) == 40
        scores = [each.score for each in everything[: n_best + 1]]
        expected.append((everything[:n_best], -np.diff(scores).max()))
    assert_agrees(search(TableModel(tables), source=sources), expected, n_best)


@pytest.mark.parametrize(
    ("length_penalty", "coverage_penalty"), [(0.0, 0.0), (0.6, 0.5), (3.0, 0.0)]
)
def test_beam_search_with_one_beam_equals_greedy_search(length_penalty, coverage_penalty):
    """For all penalties: there is only one hypothesis."""
    model, sources = TableModel(random_tables(4)), random_sources(4, rows=16)
    lengths = at_most(9)
    greedy = GreedySearch(length_penalty=length_penalty, lengths=lengths)(model, source=sources)
    beam = BeamSearch(
        beams=1, length_penalty=length_penalty, coverage_penalty=coverage_penalty, lengths=lengths
    )(model, source=sources)
    if coverage_penalty:
        assert np.all(beam.score <= greedy.score)
        beam = beam._replace(score=greedy.score)
    assert_same_found(beam, greedy)


@pytest.mark.parametrize(
    ("beams", "n_best", "length_penalty"), [(2, 1, 0.0), (4, 1, 0.6), (5, 2, 2.0), (4, 4, 0.6)]
)
def test_beam_search_that_stops_early_loses_no_hypothesis(beams, n_best, length_penalty):
    """The reference continues until no hypothesis is left, and finds nothing better."""
    settings = {"beams": beams, "n_best": n_best, "length_penalty": length_penalty}
    tables, sources = random_tables(5, end=1.0), random_sources(5, rows=24)
    expected = expected_of(tables, sources, Rules(maximum=10), stops_early=False, **settings)
    found = BeamSearch(lengths=at_most(10), **settings)(TableModel(tables), source=sources)
    assert_agrees(found, expected, n_best)


def test_beam_search_never_displaces_finished_hypothesis():
    """The empty text has probability 0.4; every longer text is less likely, but there are many."""
    vocabulary = 8
    likely = np.full(vocabulary, 0.12)
    likely[[0, 1, 2]], likely[END] = 1e-4, 0.4
    logits = np.broadcast_to(np.log(likely), (GROUPS, *[vocabulary] * 3))
    tables = Tables(
        logits.astype("float32"),
        np.zeros((PHASES, vocabulary), "float32"),
        random_tables(0, vocabulary).attention,
    )
    source = random_sources(0, rows=1, vocabulary=vocabulary)
    for beams in (1, 2, 6):
        search = BeamSearch(beams=beams, n_best=1, length_penalty=0.0, lengths=at_most(12))
        found = search(TableModel(tables), source=source)
        assert found_ids(found) == [[(END,)]]
        wanted = np.log(0.4 / likely.sum())
        np.testing.assert_allclose(found.score, [[wanted]], atol=1e-5)


def test_beam_search_with_larger_n_best_keeps_the_best():
    """With `n_best` equal to `beams` the search cannot stop early."""
    model, sources = TableModel(random_tables(6)), random_sources(6, rows=16)
    best, all_four = (
        BeamSearch(beams=4, n_best=n_best, lengths=at_most(9))(model, source=sources)
        for n_best in (1, 4)
    )
    assert found_ids(best) == [[row[0]] for row in found_ids(all_four)]
    np.testing.assert_allclose(best.score[:, 0], all_four.score[:, 0], atol=1e-5)


@pytest.mark.parametrize(("shares_memory", "coverage_penalty"), [(True, 0.0), (False, 0.4)])
def test_beam_search_of_batch_equals_each_row_alone(shares_memory, coverage_penalty):
    """Rows have several lengths; alone, a row has no padding."""
    model, sources = TableModel(random_tables(7), shares_memory), random_sources(7, rows=4)
    search = BeamSearch(
        beams=3,
        n_best=2,
        coverage_penalty=coverage_penalty,
        lengths=LengthLimits(maximum=8, maximum_ratio=1.5, maximum_margin=2),
        with_alignment=True,
    )
    together = search(model, source=sources)
    for row, source in enumerate(sources):
        alone = search(model, source=source[None, source != 0])
        assert_same_found(alone, row_of(together, row))


def test_beam_search_does_not_repeat_memory():
    """The state's "memory" has a row for each source, not for each hypothesis."""
    seen = []

    class WatchedModel(TableModel):
        def step(self, ids, state):
            seen.append((len(ids), state["memory"]["group"].numpy().tolist()))
            return super().step(ids, state)

    model, sources = WatchedModel(random_tables(7)), random_sources(7, rows=4)
    groups = model.encode(sources).states.numpy().tolist()
    BeamSearch(beams=3, n_best=3, lengths=at_most(4))(model, source=sources)
    assert seen == [(12, groups)] * 4


def test_beam_search_marks_missing_hypotheses():
    """One token allows only the end id; two tokens allow 1 + 3 hypotheses."""
    tables, sources = random_tables(8, vocabulary=6), random_sources(8, rows=4, vocabulary=6)
    settings = {"beams": 6, "n_best": 6, "length_penalty": 0.6}
    for maximum, count in ((1, 1), (2, 4)):
        search = BeamSearch(lengths=at_most(maximum), **settings)
        found = search(TableModel(tables), source=sources)
        expected = expected_of(tables, sources, Rules(maximum=maximum), **settings)
        assert_agrees(found, expected, hypotheses=6)
        assert np.all(found.lengths[:, :count] > 0)
        assert np.all(found.lengths[:, count:] == 0)
        assert np.all(found.ids[:, count:] == 0)
        assert np.all(found.score[:, count:] == -np.inf)


def test_beam_search_breaks_ties_by_beam_then_id():
    """All tokens are equally likely, so all sums of a step are equal."""
    vocabulary = 7
    tables = Tables(
        np.zeros((GROUPS, *[vocabulary] * 3), "float32"),
        np.zeros((PHASES, vocabulary), "float32"),
        random_tables(0).attention,
    )
    sources = random_sources(0, rows=3)
    settings = {"beams": 3, "n_best": 3, "length_penalty": 0.0}
    expected = expected_of(tables, sources, Rules(maximum=4), **settings)
    found = BeamSearch(lengths=at_most(4), **settings)(TableModel(tables), source=sources)
    assert found_ids(found) == [[each.ids for each in row] for row, _ in expected]


def test_beam_search_returns_alignment_only_if_requested():
    model, sources = TableModel(random_tables(9)), random_sources(9, rows=2)
    assert BeamSearch(lengths=at_most(3))(model, source=sources).alignment is None
    asked = BeamSearch(lengths=at_most(3), with_alignment=True)(model, source=sources)
    assert asked.alignment.shape == asked.ids.shape
    assert asked.alignment.dtype == "int32"


def test_coverage_penalty_prefers_attention_to_whole_source():
    """Of two equally likely texts, one attends to the first source token twice."""
    vocabulary = 6
    logits = np.full((GROUPS, *[vocabulary] * 3), -20, "float32")
    logits[:, 2, 2, [4, 5]] = 0.1, 0.0  # after the start id: 4 is slightly more likely
    logits[:, 2, 4:, END] = 0.0
    attention = np.zeros((GROUPS, vocabulary, vocabulary, 8), "float32")
    attention[:, 2, 2, 0] = attention[:, 2, 4, 0] = attention[:, 2, 5, 1] = 9
    tables = Tables(logits, np.zeros((PHASES, vocabulary), "float32"), attention)
    found = {
        penalty: found_ids(
            BeamSearch(beams=4, coverage_penalty=penalty, lengths=at_most(5))(
                TableModel(tables), source=[[4, END]]
            )
        )
        for penalty in (0.0, 0.2)
    }
    assert found == {0.0: [[(4, END)]], 0.2: [[(5, END)]]}
