"""Equal results of a search run eagerly, as a graph, and compiled by XLA."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import (
    BeamSearch,
    ForbiddenTokens,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
    SamplingSearch,
)
from tests.decoding.agreement import assert_same_found, assert_well_formed, found_ids
from tests.decoding.reference import END
from tests.decoding.toy_models import (
    CountdownModel,
    PromptModel,
    TableModel,
    Tables,
    at_most,
    random_sources,
    random_tables,
)

LENGTHS = LengthLimits(maximum=5, maximum_ratio=1.0, maximum_margin=2)
CONSTRAINTS = (NoRepeatNgram(2), RepetitionPenalty(1.3), ForbiddenTokens([5]))
SEARCHES = {
    "greedy": GreedySearch(lengths=LENGTHS, with_alignment=True),
    # Six beams, of which a long prefix leaves five unused for many steps.
    "beam": BeamSearch(
        beams=6, n_best=4, coverage_penalty=0.2, lengths=LENGTHS, constraints=CONSTRAINTS
    ),
    "sampling": SamplingSearch(samples=2, top_k=4, top_p=0.9, lengths=LENGTHS),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
PREFIX = np.array([[4, 6, 0, 0, 0, 0, 0, 0], [0] * 8, [6, 4, 6, 4, 6, 4, 6, 4], [1] + [0] * 7])


@pytest.mark.parametrize(
    ("kind", "jit_compile"),
    [("greedy", True), ("beam", False), ("beam", True), ("sampling", True)],
)
def test_compiled_search_equals_eager_search(kind, jit_compile):
    """The same function with other models and sources: it contains no values of the first."""
    search = SEARCHES[kind]
    prefix = PREFIX if kind == "beam" else PREFIX[:, :1]

    @tf.function(jit_compile=jit_compile)
    def compiled(tables, source):
        return search(TableModel(Tables(*tables)), source=source, prefix=prefix)

    for number in range(2):
        tables, sources = random_tables(number), random_sources(number, rows=4)
        found = compiled(tuple(map(tf.constant, tables)), tf.constant(sources))
        eager = search(TableModel(tables), source=sources, prefix=prefix)
        assert_same_found(found, eager)
        assert_well_formed(found, hypotheses=eager.ids.shape[1])
    assert compiled.experimental_get_tracing_count() == 1


@every_search
def test_function_is_traced_once_for_all_source_shapes(search):
    model = TableModel(random_tables(1))
    function = search.function(model)
    seeds = [tf.zeros([], spec.dtype) for spec in search.call_inputs.values()]
    for rows, longest in ((2, 6), (5, 1), (0, 4)):
        sources = random_sources(rows, rows, longest=longest)
        assert_same_found(function(tf.constant(sources), *seeds), search(model, source=sources))
    assert function.experimental_get_tracing_count() == 1


def test_function_is_traced_once_for_all_prompt_shapes():
    search = BeamSearch(beams=3, n_best=2, lengths=LENGTHS, constraints=CONSTRAINTS)
    model = PromptModel(random_tables(1))
    function = search.function(model)
    for prompts in (PREFIX[:2, :3], PREFIX[:, :0], PREFIX[:0]):
        found = function(tf.constant(prompts, tf.int32))
        assert_same_found(found, search(model, prefix=prompts))
    assert function.experimental_get_tracing_count() == 1


@every_search
@pytest.mark.parametrize("length", [0, 4])
def test_search_of_empty_batch_returns_no_rows(search, length):
    empty = np.zeros((0, length), "int32")
    found = search(TableModel(random_tables(1)), source=empty)
    assert_well_formed(found, hypotheses=found.ids.shape[1])
    assert found_ids(found) == []


@pytest.mark.parametrize(
    ("search", "mode"),
    [
        (GreedySearch(lengths=LengthLimits(maximum=200)), "graph"),
        (BeamSearch(lengths=at_most(200)), "eager"),
        (BeamSearch(lengths=at_most(200)), "xla"),
        (SamplingSearch(samples=3, lengths=at_most(200)), "eager"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_search_stops_when_all_rows_are_done(search, mode):
    """The longest of three rows has seven tokens and the end id: eight steps, not 200."""
    model, sources = CountdownModel(), tf.constant([[4], [7], [1]])

    def run():
        return search(model, source=sources)

    found = run() if mode == "eager" else tf.function(run, jit_compile=mode == "xla")()
    best = [row[0] for row in found_ids(found)]
    assert best == [(model.said,) * count + (END,) for count in (4, 7, 1)]
    assert model.steps.numpy() == 8
