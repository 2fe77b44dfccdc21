"""What a user gets wrong, and is told."""

import math
import re

import pytest

from keras_transformer.decoding import (
    BeamSearch,
    ForbiddenTokens,
    GreedySearch,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
    SamplingSearch,
)
from tests.decoding.reference import END
from tests.decoding.toy_models import PromptModel, TableModel, random_tables

TABLES = random_tables(1, vocabulary=8)
SOURCE = [[4, 5, END]]
SETTINGS = [
    (BeamSearch, {"beams": 0}, "`beams` must be a whole number of at least 1; got 0."),
    (BeamSearch, {"n_best": 0}, "`n_best` must be a whole number of at least 1; got 0."),
    (
        BeamSearch,
        {"beams": 2, "n_best": 3},
        "`n_best` must not be more than `beams`; got 3 and 2.",
    ),
    (
        BeamSearch,
        {"coverage_penalty": -0.1},
        "`coverage_penalty` must be a finite number of at least 0; got -0.1.",
    ),
    (
        GreedySearch,
        {"length_penalty": -1},
        "`length_penalty` must be a finite number of at least 0; got -1.",
    ),
    (GreedySearch, {"lengths": 5}, "`lengths` must be a LengthLimits; got 5."),
    (GreedySearch, {"with_alignment": 1}, "`with_alignment` must be True or False; got 1."),
    (
        GreedySearch,
        {"controls": (3,)},
        "`controls` must hold controls such as NoRepeatNgram(3); got 3.",
    ),
    (SamplingSearch, {"samples": 0}, "`samples` must be a whole number of at least 1; got 0."),
    (
        SamplingSearch,
        {"temperature": -1},
        "`temperature` must be a finite number of at least 0; got -1.",
    ),
    (SamplingSearch, {"top_k": 0}, "`top_k` must be a whole number of at least 1; got 0."),
    (SamplingSearch, {"top_p": 0}, "`top_p` must be a finite number above 0; got 0."),
    (SamplingSearch, {"top_p": 1.5}, "`top_p` must be at most 1; got 1.5."),
    (LengthLimits, {"maximum": 0}, "`maximum` must be a whole number of at least 1; got 0."),
    (LengthLimits, {"minimum": 0}, "`minimum` must be a whole number of at least 1; got 0."),
    (
        LengthLimits,
        {"maximum": 3, "minimum": 4},
        "`minimum` must not be more than `maximum`; got 4 and 3.",
    ),
    (
        LengthLimits,
        {"maximum_ratio": math.nan},
        "`maximum_ratio` must be a finite number of at least 0; got nan.",
    ),
    (LengthLimits, {"maximum_margin": None}, "`maximum_margin` must be"),
    (LengthLimits, {"minimum_ratio": None}, "`minimum_ratio` must be"),
    (NoRepeatNgram, {"size": 0}, "`size` must be a whole number of at least 1; got 0."),
    (
        RepetitionPenalty,
        {"factor": 0.5},
        "`factor` must be at least 1, which changes nothing; got 0.5.",
    ),
    (ForbiddenTokens, {"ids": [-1]}, "`ids` must be a whole number of at least 0; got -1."),
    (ForbiddenTokens, {"ids": [END]}, "`ids` must not hold 3, the END token"),
]


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    SETTINGS,
    ids=[f"{make.__name__}-{settings}" for make, settings, _ in SETTINGS],
)
def test_settings(make, settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make(**settings)


@pytest.mark.parametrize(
    ("settings", "inputs", "message"),
    [
        ({}, {}, "This model has a source, and needs it as `source`."),
        ({}, {"source": [4, 5]}, "`source` must have shape [B, S]; got (2,)."),
        ({}, {"source": SOURCE, "prefix": [4]}, "`prefix` must have shape [B, P]; got (1,)."),
        (
            {"controls": [ForbiddenTokens([5, 99])]},
            {"source": SOURCE},
            "`ids` must be below 8, the model's vocabulary; got [99].",
        ),
    ],
    ids=str,
)
def test_inputs(settings, inputs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GreedySearch(**settings)(TableModel(TABLES), **inputs)


def test_seeds():
    for seed in (-1, 2**64, 1.5, None):
        with pytest.raises(ValueError, match=f"`seed` must be .*; got {seed}"):
            SamplingSearch()(TableModel(TABLES), source=SOURCE, seed=seed)


def test_alignment_needs_a_source():
    for settings in ({"with_alignment": True}, {"coverage_penalty": 0.2}):
        with pytest.raises(ValueError, match="needs the attention to a source"):
            BeamSearch(**settings)(PromptModel(TABLES), prefix=[[4]])
