"""Search over a step function: greedy, beam, sampling; and what one may demand of the result."""

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import (
    Control,
    ForbiddenTokens,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
)
from keras_transformer.decoding.greedy_search import GreedySearch
from keras_transformer.decoding.sampling_search import SamplingSearch
from keras_transformer.decoding.search import Hypotheses
from keras_transformer.decoding.search_settings import SearchSettings

__all__ = [
    "BeamSearch",
    "Control",
    "ForbiddenTokens",
    "GreedySearch",
    "Hypotheses",
    "LengthLimits",
    "NoRepeatNgram",
    "RepetitionPenalty",
    "SamplingSearch",
    "SearchSettings",
]
