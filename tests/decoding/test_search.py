"""Settings and inputs of searches: what is accepted and what is refused."""

import math
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import (
    BeamSearch,
    ForbiddenTokens,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
    SamplingSearch,
)
from keras_transformer.models import LanguageModel, Transformer
from tests.decoding.reference import END
from tests.decoding.toy_models import PromptModel, TableModel, at_most, random_tables

TABLES = random_tables(1, vocabulary=8)
SOURCE = [[4, 5, END]]
SMALL = {"vocabulary_size": 12, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}


@pytest.fixture(scope="module")
def transformer():
    return Transformer.from_size("tiny", num_encoder_layers=1, num_decoder_layers=1, **SMALL)


@pytest.fixture(scope="module")
def language_model():
    return LanguageModel.from_size("tiny", num_layers=1, positions="learned", max_length=6, **SMALL)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (BeamSearch, "beams", 0),
        (BeamSearch, "n_best", 0),
        (BeamSearch, "n_best", 5),
        (BeamSearch, "coverage_penalty", -0.1),
        (GreedySearch, "length_penalty", -1),
        (GreedySearch, "lengths", 5),
        (GreedySearch, "with_alignment", 1),
        (SamplingSearch, "samples", 0),
        (SamplingSearch, "temperature", -1),
        (SamplingSearch, "top_k", 0),
        (SamplingSearch, "top_p", 0),
        (SamplingSearch, "top_p", 1.5),
        (LengthLimits, "maximum", 0),
        (LengthLimits, "minimum", 0),
        (LengthLimits, "minimum", 257),
        (LengthLimits, "maximum_ratio", math.nan),
        (LengthLimits, "maximum_margin", None),
        (LengthLimits, "minimum_ratio", None),
        (NoRepeatNgram, "size", 0),
        (RepetitionPenalty, "factor", 0.5),
        (ForbiddenTokens, "ids", -1),
    ],
)
def test_wrong_setting_is_refused_by_name(kind, name, value):
    with pytest.raises(ValueError, match=rf"^`{name}` must be .* got {re.escape(repr(value))}\."):
        kind(**{name: value})


def test_constraint_of_another_type_is_refused():
    with pytest.raises(UserError, match=r"`constraints` .* got 3\."):
        GreedySearch(constraints=(3,))


def test_single_constraint_becomes_a_tuple():
    assert GreedySearch(constraints=NoRepeatNgram(2)).constraints == (NoRepeatNgram(2),)
    assert ForbiddenTokens(7) == ForbiddenTokens([7])


def test_with_n_best_changes_the_number_of_results():
    assert BeamSearch(beams=3).with_n_best(3) == BeamSearch(beams=3, n_best=3)
    assert SamplingSearch().with_n_best(2).n_best == 2
    assert GreedySearch().with_n_best(1).n_best == 1
    with pytest.raises(UserError, match="`n` must be 1"):
        GreedySearch().with_n_best(2)


# --- inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "inputs", "message"),
    [
        ({}, {}, "as `source`"),
        ({}, {"source": [4, 5]}, "`source` must have shape [B, S]; got (2,)"),
        ({}, {"source": {"heads": [[1]]}}, "got ['heads']"),
        ({}, {"source": SOURCE, "prefix": [4]}, "`prefix` must have shape [B, P]; got (1,)"),
        ({"constraints": [ForbiddenTokens([5, 99])]}, {"source": SOURCE}, "below 8"),
        ({"constraints": [ForbiddenTokens([END])]}, {"source": SOURCE}, f"{END}, the end id"),
    ],
    ids=str,
)
def test_wrong_input_is_refused(settings, inputs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GreedySearch(**settings)(TableModel(TABLES), **inputs)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, None])
def test_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match=f"`seed` must be .*; got {seed}"):
        SamplingSearch()(TableModel(TABLES), source=SOURCE, seed=seed)


@pytest.mark.parametrize("settings", [{"with_alignment": True}, {"coverage_penalty": 0.2}])
def test_attention_without_source_is_refused(settings):
    with pytest.raises(UserError, match="attention to a source"):
        BeamSearch(**settings)(PromptModel(TABLES), prefix=[[4]])


def test_source_for_model_without_source_is_refused(language_model):
    with pytest.raises(UserError, match=r"no source: .*`prefix`"):
        GreedySearch()(language_model, source=[[4, 3]])


def test_model_with_source_requires_source(transformer):
    with pytest.raises(UserError, match=r"has a source: .*`source`"):
        GreedySearch()(transformer, prefix=[[4]])


def test_model_without_source_requires_prefix(language_model):
    with pytest.raises(UserError, match="`prefix`"):
        GreedySearch()(language_model)


def test_prefix_with_other_number_of_rows_is_refused(transformer):
    with pytest.raises(tf.errors.InvalidArgumentError, match="each row of `source`"):
        BeamSearch()(transformer, source=[[4, 3], [5, 3]], prefix=[[4]])


def test_prefix_that_begins_with_padding_is_refused(transformer):
    with pytest.raises(tf.errors.InvalidArgumentError, match="padded at the end"):
        BeamSearch()(transformer, source=[[4, 3]], prefix=[[0, 4]])


@pytest.mark.parametrize("tokens", [6, 9])
def test_prompt_beyond_position_limit_is_refused(language_model, tokens):
    with pytest.raises(tf.errors.InvalidArgumentError, match="shorter than the 6 positions"):
        GreedySearch()(language_model, prefix=[[4] * tokens])


def test_prompt_at_position_limit_gets_the_end_id(language_model):
    found = GreedySearch()(language_model, prefix=[[4] * 5])
    assert found.ids.numpy().tolist() == [[[4] * 5 + [3]]]


def test_ragged_source_equals_padded_source(transformer):
    search = BeamSearch(lengths=at_most(5))
    ragged = search(transformer, source=tf.ragged.constant([[4, 5, 3], [6, 3]]))
    padded = search(transformer, source=[[4, 5, 3], [6, 3, 0]])
    np.testing.assert_array_equal(ragged.ids, padded.ids)


def test_function_of_sampling_takes_a_seed(transformer):
    search = SamplingSearch(lengths=LengthLimits(maximum=9))
    function = search.function(transformer)
    source = tf.constant([[4, 5, 3]] * 4)
    for seed in (1, 2**40):
        drawn = function(source, tf.constant(seed, tf.int64))
        np.testing.assert_array_equal(drawn.ids, search(transformer, source, seed=seed).ids)
    assert function.experimental_get_tracing_count() == 1


def test_alignment_is_zero_after_the_end(transformer):
    search = GreedySearch(
        lengths=LengthLimits(maximum_ratio=1, maximum_margin=0), with_alignment=True
    )
    found = search(transformer, source=[[4, 5, 6, 3], [7, 3, 0, 0]])
    assert found.alignment.numpy()[1, 0, 2:].tolist() == [0, 0]
