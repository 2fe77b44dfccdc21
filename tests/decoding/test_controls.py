"""Each control and limit, alone and with others, in each search, against the reference."""

import itertools

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
from tests.decoding import reference
from tests.decoding.agreement import (
    assert_agrees,
    assert_follows,
    assert_same_found,
    found_ids,
)
from tests.decoding.lengths import at_most
from tests.decoding.reference import END, Rules
from tests.decoding.toy_models import (
    PromptModel,
    TableModel,
    random_sources,
    random_tables,
    row_model,
)

# Each beside its reference.
FORBIDDEN = (ForbiddenTokens([5, 6]), reference.forbidden_tokens([5, 6]))
NO_UNIGRAM = (NoRepeatNgram(1), reference.no_repeat_ngram(1))
NO_BIGRAM = (NoRepeatNgram(2), reference.no_repeat_ngram(2))
NO_TRIGRAM = (NoRepeatNgram(3), reference.no_repeat_ngram(3))
PENALTY = (RepetitionPenalty(1.7), reference.repetition_penalty(1.7))
ONLY_END = (ForbiddenTokens([1, 4, 5, 6, 7]), reference.forbidden_tokens([1, 4, 5, 6, 7]))
CONTROLS = {
    "none": (),
    "forbidden": (FORBIDDEN,),
    "unigram": (NO_UNIGRAM,),
    "bigram": (NO_BIGRAM,),
    "trigram": (NO_TRIGRAM,),
    "penalty": (PENALTY,),
    "only-end": (ONLY_END,),
    "penalty-twice": (PENALTY, PENALTY),
    "all": (NO_TRIGRAM, PENALTY, FORBIDDEN),
    "all-reversed": (FORBIDDEN, PENALTY, NO_BIGRAM),
}
LENGTHS = {
    "exact": {"maximum": 5, "minimum": 5},
    "relative": {"maximum": 6, "maximum_ratio": 1.5, "maximum_margin": 1, "minimum_ratio": 0.75},
    "one": {"maximum": 9, "maximum_ratio": 0.0, "maximum_margin": 0, "minimum": 4},
    "crossing": {"maximum": 4, "minimum_ratio": 2.5},
}
VOCABULARY = 8
TABLES = random_tables(21, VOCABULARY, scale=1.0, end=-1.0)
SOURCES = random_sources(21, rows=8, vocabulary=VOCABULARY)
PREFIXES = [(), (5,), (5, 6, 5, 6), (1,), (4, 4), (6, 6, 6), (), (7, 7, 7, 7, 7)]
NO_PREFIXES = [()] * len(PREFIXES)


def padded(rows, width=None):
    array = np.zeros((len(rows), width or max(map(len, rows))), "int32")
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array


def limits(settings):
    return LengthLimits(**{"maximum_ratio": None, **settings})


def rows_of_rules(controls, lengths, sources, prefixes):
    """The reference's rules for each row."""
    for source, prefix in zip(sources, prefixes, strict=True):
        tokens = len(prefix) if source is None else np.count_nonzero(source)
        minimum, maximum = reference.bounds(tokens, **lengths)
        yield Rules(tuple(each for _, each in controls), prefix, minimum, maximum)


def check_greedy(model, tables, sources, controls, lengths, prefixes):
    expected = []
    rules_of_rows = rows_of_rules(controls, lengths, sources, prefixes)
    for source, rules in zip(sources, rules_of_rows, strict=True):
        best, margin = reference.greedy_search(row_model(tables, source), rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(
        length_penalty=0.6, lengths=limits(lengths), controls=tuple(each for each, _ in controls)
    )
    assert_agrees(search(model, **inputs(sources, prefixes)), expected)


def check_beam(model, tables, sources, controls, lengths, prefixes):
    settings = {"beams": 3, "n_best": 2, "length_penalty": 0.6}
    if sources[0] is not None:
        settings["coverage_penalty"] = 0.2
    expected = [
        reference.beam_search(row_model(tables, source), rules, **settings)
        for source, rules in zip(
            sources, rows_of_rules(controls, lengths, sources, prefixes), strict=True
        )
    ]
    search = BeamSearch(
        lengths=limits(lengths), controls=tuple(each for each, _ in controls), **settings
    )
    assert_agrees(search(model, **inputs(sources, prefixes)), expected, hypotheses=2)


def check_sampling(model, tables, sources, controls, lengths, prefixes):
    search = SamplingSearch(
        samples=4,
        length_penalty=0.6,
        lengths=limits(lengths),
        controls=tuple(each for each, _ in controls),
    )
    found = search(model, **inputs(sources, prefixes), seed=4)
    models = [row_model(tables, source) for source in sources]
    assert_follows(found, models, rows_of_rules(controls, lengths, sources, prefixes), 0.6)


def inputs(sources, prefixes):
    given = {"prefix": padded(prefixes) if any(prefixes) else None}
    return given if sources[0] is None else {"source": np.array(sources), **given}


SEARCHES = {"greedy": check_greedy, "beam": check_beam, "sampling": check_sampling}
every_search = pytest.mark.parametrize("check", SEARCHES.values(), ids=SEARCHES.keys())


@every_search
@pytest.mark.parametrize("controls", CONTROLS.values(), ids=CONTROLS.keys())
def test_controls(controls, check):
    """Some rows have a prefix: it wins over all bans, counts as history, and costs nothing."""
    check(TableModel(TABLES), TABLES, SOURCES, controls, {"maximum": 4}, PREFIXES)


@pytest.mark.parametrize(
    ("kind", "name"), [*itertools.product(("greedy", "beam"), LENGTHS), ("sampling", "relative")]
)
def test_lengths(kind, name):
    """Of chosen tokens, each row's own."""
    check = SEARCHES[kind]
    check(TableModel(TABLES), TABLES, SOURCES, (), LENGTHS[name], PREFIXES)


@every_search
def test_where_nothing_is_left_the_end_is(check):
    """Even before the minimum: only five tokens may come, each once."""
    lengths = {"maximum": 9, "minimum": 8}
    check(TableModel(TABLES), TABLES, SOURCES, (NO_UNIGRAM,), lengths, NO_PREFIXES)


@every_search
def test_prompts(check):
    """Without a source, lengths are relative to the prompt."""
    controls = (NO_TRIGRAM, PENALTY)
    check(PromptModel(TABLES), TABLES, [None] * 8, controls, LENGTHS["relative"], PREFIXES)


def test_a_long_prefix_in_many_places():
    """While a row has but one hypothesis, its other places are no hypotheses at all."""
    prefixes = [(4, 5, 6, 7) * 3, (4,) * 9, ()]
    settings = {"beams": 6, "n_best": 6, "length_penalty": 0.6}
    expected = [
        reference.beam_search(
            row_model(TABLES, source), Rules(prefix=prefix, maximum=3), **settings
        )
        for source, prefix in zip(SOURCES, prefixes, strict=False)
    ]
    search = BeamSearch(lengths=at_most(3), **settings)
    found = search(TableModel(TABLES), source=SOURCES[:3], prefix=padded(prefixes))
    assert_agrees(found, expected, hypotheses=6)


@every_search
def test_an_end_within_the_prefix_ends_nothing(check):
    """A prompt may hold several texts; only a chosen end is the end."""
    prefixes = [(4, END, 5), (END,), (4, 5, END), (), (END, END), (), (), (7,) * 8 + (END, 4)]
    check(TableModel(TABLES), TABLES, SOURCES, (NO_UNIGRAM,), {"maximum": 3}, prefixes)


def test_a_ragged_prefix_is_a_padded_one():
    ragged = tf.ragged.constant([list(prefix) for prefix in PREFIXES], dtype=tf.int32)
    search = BeamSearch(beams=3, lengths=at_most(4))
    first = search(TableModel(TABLES), source=SOURCES, prefix=padded(PREFIXES))
    second = search(TableModel(TABLES), source=SOURCES, prefix=ragged)
    wider = search(TableModel(TABLES), source=SOURCES, prefix=padded(PREFIXES, width=9))
    assert_same_found(first, second)
    assert_same_found(first, wider)


def test_no_repeat_ngram_bans_a_repetition_for_good():
    """A model that would say one token for ever, were it allowed to."""
    tables = random_tables(1, scale=0.1, end=-4.0)
    tables.logits[..., 4] += 30
    search = GreedySearch(lengths=at_most(12), controls=(NoRepeatNgram(2),))
    [[ids]] = found_ids(search(TableModel(tables), source=[[5, END]]))
    bigrams = list(itertools.pairwise(ids))
    assert len(bigrams) == len(set(bigrams))
    assert ids[:2] == (4, 4)
    assert ids.count(4) == 5  # followed by 4, by each of the three others, and by the end


@pytest.mark.parametrize("tenths", [3, 7, 11])
def test_relative_lengths_are_not_cut_short_by_rounding(tenths):
    """0.7 times 10 is 7, though 0.7 has no exact float."""
    counts = np.arange(1, 11)
    sources = np.where(np.arange(10) < counts[:, None], END, 0)
    lengths = LengthLimits(maximum=99, maximum_ratio=tenths / 10, maximum_margin=0)
    model = TableModel(random_tables(1, end=-30.0))
    found = GreedySearch(lengths=lengths)(model, source=sources)
    np.testing.assert_array_equal(found.lengths[:, 0], np.maximum(1, tenths * counts // 10))


def test_a_models_last_position():
    """What it can read, start and prefix included, is one more limit of each row."""
    model, expected = TableModel(TABLES, position_limit=6), []
    for source, prefix in zip(SOURCES, PREFIXES, strict=True):
        rules = Rules(prefix=prefix, maximum=6 - len(prefix))
        best, margin = reference.greedy_search(row_model(TABLES, source), rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(length_penalty=0.6, lengths=at_most(9))
    assert_agrees(search(model, source=SOURCES, prefix=padded(PREFIXES)), expected)
