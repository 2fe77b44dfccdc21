"""Searches with special ids other than the default, beside the reference."""

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import (
    BeamSearch,
    ForbiddenTokens,
    GreedySearch,
    NoRepeatNgram,
    RepetitionPenalty,
    SamplingSearch,
)
from tests.decoding import reference
from tests.decoding.agreement import CHECKS, assert_same_found, assert_well_formed
from tests.decoding.reference import Special
from tests.decoding.toy_models import (
    PromptModel,
    TableModel,
    at_most,
    pieces_of,
    random_sources,
    random_tables,
)

VOCABULARY = 9
SETS = {
    "default": Special(),
    "padding-5": Special(padding=5),
    "start-is-padding": Special(padding=8, unknown=1, start=8, end=0),  # as in Marian
    "start-is-end": Special(padding=1, unknown=3, start=2, end=2),  # as in BART
}
every_set = pytest.mark.parametrize("special", SETS.values(), ids=SETS.keys())
every_search = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())


def prefixes_of(special):
    a, b, c = pieces_of(VOCABULARY, special)[-3:].tolist()
    end = special.end
    return [(), (a,), (a, b, a, b), (special.unknown,), (c, c), (a, end, b), (), (b,) * 5]


def constraints_of(special):
    excluded = int(pieces_of(VOCABULARY, special)[0])
    return (
        (NoRepeatNgram(2), reference.no_repeat_ngram(2, special.end)),
        (RepetitionPenalty(1.7), reference.repetition_penalty(1.7)),
        (ForbiddenTokens([excluded]), reference.forbidden_tokens([excluded])),
    )


@every_set
@every_search
@pytest.mark.parametrize("is_constrained", [False, True], ids=["free", "constrained"])
def test_search_with_source_and_prefix_equals_reference(check, special, is_constrained):
    tables = random_tables(31, VOCABULARY, scale=1.0, end=-1.0, special=special)
    sources = random_sources(31, 8, VOCABULARY, special=special)
    lengths = {"maximum": 6, "maximum_ratio": 1.5, "maximum_margin": 1, "minimum_ratio": 0.75}
    check(
        TableModel(tables, special=special),
        tables,
        sources,
        constraints_of(special) if is_constrained else (),
        lengths,
        prefixes_of(special),
        special,
    )


@every_set
@every_search
def test_search_of_prompts_equals_reference(check, special):
    tables = random_tables(32, VOCABULARY, scale=1.0, end=-1.0, special=special)
    model, sources = PromptModel(tables, special), [None] * 8
    check(model, tables, sources, (), {"maximum": 4}, prefixes_of(special), special)


@every_set
@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(lengths=at_most(5)),
        BeamSearch(beams=3, n_best=2, lengths=at_most(5)),
        SamplingSearch(samples=2, top_p=0.9, lengths=at_most(5)),
    ],
    ids=["greedy", "beam", "sampling"],
)
def test_compiled_search_equals_eager_search(search, special):
    tables = random_tables(33, VOCABULARY, special=special)
    model = TableModel(tables, special=special)
    sources = random_sources(33, 4, VOCABULARY, special=special)
    seeds = [np.int64(0) for _ in search.call_inputs]
    eager = search(model, source=sources)
    assert_well_formed(eager, eager.ids.shape[1], special.padding)
    assert_same_found(search.function(model, jit_compile=True)(sources, *seeds), eager)


def test_special_ids_beyond_the_logits_are_refused():
    model = TableModel(random_tables(1), special=Special(padding=7))
    with pytest.raises(UserError, match=r"below 7, .*padding=7"):
        GreedySearch(lengths=at_most(3))(model, source=[[4, 3]])


def test_forbidden_end_id_is_refused():
    special = Special(padding=8, unknown=1, start=8, end=0)
    model = TableModel(random_tables(1, VOCABULARY), special=special)
    search = GreedySearch(lengths=at_most(3), constraints=ForbiddenTokens([0]))
    with pytest.raises(ValueError, match=r"`ids` .* 0, the end id"):
        search(model, source=[[4, 0]])
