"""Constraints, length limits and the logits processor."""

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
)
from keras_transformer.decoding.constraints import (
    _BLOCK,
    MINUS_INFINITY,
    ForbiddenIds,
    LogitsProcessor,
    forbid,
    top_k,
)
from keras_transformer.text import SpecialIds
from tests.decoding import reference
from tests.decoding.agreement import CHECKS, assert_agrees, assert_same_found, found_ids, padded
from tests.decoding.reference import END, Rules
from tests.decoding.toy_models import (
    PromptModel,
    TableModel,
    at_most,
    random_sources,
    random_tables,
    row_model,
)

# Each with its reference.
FORBIDDEN = (ForbiddenTokens([5, 6]), reference.forbidden_tokens([5, 6]))
NO_UNIGRAM = (NoRepeatNgram(1), reference.no_repeat_ngram(1))
NO_BIGRAM = (NoRepeatNgram(2), reference.no_repeat_ngram(2))
NO_TRIGRAM = (NoRepeatNgram(3), reference.no_repeat_ngram(3))
PENALTY = (RepetitionPenalty(1.7), reference.repetition_penalty(1.7))
ONLY_END = (ForbiddenTokens([1, 4, 5, 6, 7]), reference.forbidden_tokens([1, 4, 5, 6, 7]))
CONSTRAINTS = {
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

every_search = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())


@every_search
@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_constraints_with_prefixes_equal_reference(constraints, check):
    """A prefix overrides all constraints, counts as history, and costs nothing."""
    check(TableModel(TABLES), TABLES, SOURCES, constraints, {"maximum": 4}, PREFIXES)


@pytest.mark.parametrize(
    ("kind", "name"), [*itertools.product(("greedy", "beam"), LENGTHS), ("sampling", "relative")]
)
def test_length_limits_of_each_row_equal_reference(kind, name):
    CHECKS[kind](TableModel(TABLES), TABLES, SOURCES, (), LENGTHS[name], PREFIXES)


@every_search
def test_search_without_allowed_token_ends_before_minimum(check):
    """Only five tokens are possible, each once."""
    lengths = {"maximum": 9, "minimum": 8}
    check(TableModel(TABLES), TABLES, SOURCES, (NO_UNIGRAM,), lengths, NO_PREFIXES)


@every_search
def test_length_limits_without_source_are_relative_to_prompt(check):
    constraints = (NO_TRIGRAM, PENALTY)
    check(PromptModel(TABLES), TABLES, [None] * 8, constraints, LENGTHS["relative"], PREFIXES)


def test_beam_search_of_long_prefix_has_one_hypothesis_until_its_end():
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
def test_end_id_in_prefix_does_not_end_hypothesis(check):
    """A prompt may contain several texts; only a chosen end id ends the hypothesis."""
    prefixes = [(4, END, 5), (END,), (4, 5, END), (), (END, END), (), (), (7,) * 8 + (END, 4)]
    check(TableModel(TABLES), TABLES, SOURCES, (NO_UNIGRAM,), {"maximum": 3}, prefixes)


def test_ragged_prefix_equals_padded_prefix():
    ragged = tf.ragged.constant([list(prefix) for prefix in PREFIXES], dtype=tf.int32)
    search = BeamSearch(beams=3, lengths=at_most(4))
    first = search(TableModel(TABLES), source=SOURCES, prefix=padded(PREFIXES))
    second = search(TableModel(TABLES), source=SOURCES, prefix=ragged)
    longer = search(TableModel(TABLES), source=SOURCES, prefix=padded(PREFIXES, length=9))
    assert_same_found(first, second)
    assert_same_found(first, longer)


def test_no_repeat_ngram_stops_a_model_that_repeats_one_token():
    tables = random_tables(1, scale=0.1, end=-4.0)
    tables.logits[..., 4] += 30
    search = GreedySearch(lengths=at_most(12), constraints=(NoRepeatNgram(2),))
    [[ids]] = found_ids(search(TableModel(tables), source=[[5, END]]))
    bigrams = list(itertools.pairwise(ids))
    assert len(bigrams) == len(set(bigrams))
    assert ids[:2] == (4, 4)
    assert ids.count(4) == 5  # followed by 4, by each of the three others, and by the end id


@pytest.mark.parametrize("tenths", [3, 7, 11])
def test_relative_length_is_not_rounded_down_by_float_error(tenths):
    """0.7 times 10 is 7, although 0.7 is not an exact float."""
    counts = np.arange(1, 11)
    sources = np.where(np.arange(10) < counts[:, None], END, 0)
    lengths = LengthLimits(maximum=99, maximum_ratio=tenths / 10, maximum_margin=0)
    model = TableModel(random_tables(1, end=-30.0))
    found = GreedySearch(lengths=lengths)(model, source=sources)
    np.testing.assert_array_equal(found.lengths[:, 0], np.maximum(1, tenths * counts // 10))


def test_position_limit_of_model_limits_each_row():
    """The model's positions include the start id and the prefix."""
    model, expected = TableModel(TABLES, position_limit=6), []
    for source, prefix in zip(SOURCES, PREFIXES, strict=True):
        rules = Rules(prefix=prefix, maximum=6 - len(prefix))
        best, margin = reference.greedy_search(row_model(TABLES, source), rules, 0.6)
        expected.append(([best], margin))
    search = GreedySearch(length_penalty=0.6, lengths=at_most(9))
    assert_agrees(search(model, source=SOURCES, prefix=padded(PREFIXES)), expected)


# --- the logits processor -------------------------------------------------------------------------

ROWS = 6
OURS = (NoRepeatNgram(1), RepetitionPenalty(1.5), ForbiddenTokens([5, 8]))


def forbidden_ids(size, random):
    """Returns forbidden ids at the start, and in the last block if there are several."""
    forbidden = [ForbiddenIds(0, tf.constant(random.random((ROWS, 4)) < 0.5))]
    if size > 2 * _BLOCK:
        forbidden.append(ForbiddenIds(size - 3, tf.constant([[True, False]])))
    return forbidden


@pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("size", [5, 4 * _BLOCK, 4 * _BLOCK + 7])
def test_top_k_equals_tensorflow(size, k, jit_compile, random):
    """Also for equal numbers, within a block and across blocks."""
    few = random.integers(0, 5, (ROWS, size)).astype("float32")
    many = random.normal(0, 1, (ROWS, size)).astype("float32")
    many[0] = MINUS_INFINITY
    forbidden = forbidden_ids(size, random)
    find = tf.function(lambda scores: top_k(scores, k, forbidden), jit_compile=jit_compile)
    for scores in (few, many, np.flip(np.sort(many), axis=1), np.sort(many)):
        values, ids = find(tf.constant(scores))
        expected = tf.math.top_k(forbid(tf.constant(scores), forbidden), k)
        np.testing.assert_array_equal(values, expected.values)
        is_there = values > MINUS_INFINITY
        np.testing.assert_array_equal(ids[is_there], expected.indices[is_there])


@pytest.mark.parametrize(
    ("size", "special"),
    [
        (9, SpecialIds()),
        (300, SpecialIds()),
        (9, SpecialIds(padding=6)),
        (300, SpecialIds(padding=6)),
        (300, SpecialIds(padding=298, unknown=1, start=298, end=0)),
        (300, SpecialIds(padding=150, unknown=3, start=120, end=120)),
        (300, SpecialIds(padding=299, unknown=3, start=140, end=70)),  # in three blocks
    ],
)
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("constraints", [(), OURS], ids=["free", "constrained"])
def test_top_k_of_processor_equals_top_k_of_all_scores(size, constraints, k, special, random):
    """For rows below the minimum, at the maximum, in a prefix, and without an allowed token."""
    logits = random.normal(0, 3, (ROWS, size)).astype("float32")
    logits[:, special.ids] += 9  # they would be chosen if they were allowed
    logits[4] = MINUS_INFINITY
    logits[4, special.padding] = 9
    ids = random.integers(4, size, (ROWS, 8)).astype("int32")
    prefix = np.array([[0, 0, 0], [5, 7, 0], [5, 7, 8], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    processor = LogitsProcessor(
        constraints,
        minima=tf.constant([1, 1, 1, 9, 1, 1]),
        maxima=tf.constant([9, 9, 9, 9, 9, 3]),
        prefix=tf.constant(prefix, tf.int32),
        prefix_lengths=tf.constant(np.count_nonzero(prefix, axis=1), tf.int32),
        special_ids=special,
    )
    log_probabilities = tf.nn.log_softmax(logits)
    for length in (0, 2, 3, 5):
        best = processor.top_k(tf.constant(logits), tf.constant(ids), length, k)
        scores = processor.process(log_probabilities, tf.constant(ids), length)
        expected = tf.math.top_k(scores, min(k, size))
        np.testing.assert_allclose(best.scores, expected.values, atol=1e-5)
        is_there = best.scores > MINUS_INFINITY
        np.testing.assert_array_equal(best.tokens[is_there], expected.indices[is_there])
        own = tf.gather(log_probabilities, best.tokens, axis=1, batch_dims=1)
        np.testing.assert_allclose(best.log_probabilities, own, atol=1e-5)
        chosen = scores.numpy()[[0, 3]] > MINUS_INFINITY
        assert not chosen[:, special.padding].any()
        assert not chosen[:, special.start].any() or special.start == special.end
        assert not chosen[1, special.end]  # below the minimum
