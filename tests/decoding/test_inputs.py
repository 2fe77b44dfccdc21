"""What may be given to a search, and what is said when it may not."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import LanguageModel, Transformer
from keras_transformer.decoding import (
    BeamSearch,
    ForbiddenTokens,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    SamplingSearch,
    SearchSettings,
)
from tests.decoding.lengths import at_most

SMALL = {"vocabulary_size": 12, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}


@pytest.fixture(scope="module")
def transformer():
    return Transformer.from_preset("tiny", num_encoder_layers=1, num_decoder_layers=1, **SMALL)


@pytest.fixture(scope="module")
def language_model():
    return LanguageModel.from_preset(
        "tiny", num_layers=1, positions="learned", max_length=6, **SMALL
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [40, 40]),
        ({"max_length_margin": 3}, [8, 33]),
        ({"max_length_ratio": 2.0, "max_length_margin": 0}, [10, 40]),
        ({"max_length_ratio": 0.0, "max_length_margin": 3}, [3, 3]),
    ],
)
def test_the_length_of_what_is_added_may_follow_the_prompt(given, expected):
    lengths = SearchSettings(**given).make(40, has_source=False).lengths
    assert lengths.longest(tf.constant([5, 30])).numpy().tolist() == expected


def test_a_source_for_a_model_without_one(language_model):
    with pytest.raises(ValueError, match="no source: give the prompt as `prefix`"):
        GreedySearch()(language_model, source=[[4, 3]])


def test_no_source_for_a_model_with_one(transformer):
    with pytest.raises(ValueError, match="has a source, and needs it as `source`"):
        GreedySearch()(transformer, prefix=[[4]])


def test_nothing_at_all(language_model):
    with pytest.raises(ValueError, match="needs a `prefix`, its prompt"):
        GreedySearch()(language_model)


def test_rows_of_prefix_and_source(transformer):
    with pytest.raises(tf.errors.InvalidArgumentError, match="a row for each of `source`"):
        BeamSearch()(transformer, source=[[4, 3], [5, 3]], prefix=[[4]])


def test_padding_before_a_prefix(transformer):
    with pytest.raises(tf.errors.InvalidArgumentError, match="padded at the end of its rows only"):
        BeamSearch()(transformer, source=[[4, 3]], prefix=[[0, 4]])


@pytest.mark.parametrize("tokens", [6, 9])
def test_a_prompt_longer_than_the_positions(language_model, tokens):
    with pytest.raises(tf.errors.InvalidArgumentError, match="shorter than the 6 positions"):
        GreedySearch()(language_model, prefix=[[4] * tokens])


def test_a_prompt_that_just_fits(language_model):
    found = GreedySearch()(language_model, prefix=[[4] * 5])
    assert found.ids.numpy().tolist() == [[[4] * 5 + [3]]]


def test_a_ragged_source_is_a_padded_one(transformer):
    search = BeamSearch(lengths=at_most(5))
    ragged = search(transformer, source=tf.ragged.constant([[4, 5, 3], [6, 3]]))
    padded = search(transformer, source=[[4, 5, 3], [6, 3, 0]])
    np.testing.assert_array_equal(ragged.ids, padded.ids)


def test_one_control_alone():
    assert GreedySearch(controls=NoRepeatNgram(2)).controls == (NoRepeatNgram(2),)
    assert ForbiddenTokens(7) == ForbiddenTokens([7])


def test_a_compiled_function_of_a_sampling_takes_a_seed(transformer):
    search = SamplingSearch(lengths=LengthLimits(maximum=9))
    function = search.function(transformer)
    source = tf.constant([[4, 5, 3]] * 4)
    for seed in (1, 2**40):
        drawn = function(source, tf.constant(seed, tf.int64))
        np.testing.assert_array_equal(drawn.ids, search(transformer, source, seed=seed).ids)
    assert function.experimental_get_tracing_count() == 1


def test_alignment_ends_with_the_text(transformer):
    search = GreedySearch(
        lengths=LengthLimits(maximum_ratio=1, maximum_margin=0), with_alignment=True
    )
    found = search(transformer, source=[[4, 5, 6, 3], [7, 3, 0, 0]])
    assert found.alignment.numpy()[1, 0, 2:].tolist() == [0, 0]
