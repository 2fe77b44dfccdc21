"""Search over a step function: greedy search, beam search, sampling, and constraints on tokens.

Public names are imported on first use (PEP 562), so that `SearchSettings` is available without
TensorFlow.
"""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.decoding.beam_search import BeamSearch
    from keras_transformer.decoding.constraints import (
        Constraint,
        ForbiddenTokens,
        LengthLimits,
        NoRepeatNgram,
        RepetitionPenalty,
    )
    from keras_transformer.decoding.greedy_search import GreedySearch
    from keras_transformer.decoding.hypotheses import Hypotheses
    from keras_transformer.decoding.registry import SEARCHES, register_search, registered_searches
    from keras_transformer.decoding.sampling_search import SamplingSearch
    from keras_transformer.decoding.search import Search
    from keras_transformer.decoding.search_settings import SearchSettings, get_search

import_lazily(
    __name__,
    {
        "beam_search": "BeamSearch",
        "constraints": "Constraint ForbiddenTokens LengthLimits NoRepeatNgram RepetitionPenalty",
        "greedy_search": "GreedySearch",
        "hypotheses": "Hypotheses",
        "registry": "SEARCHES register_search registered_searches",
        "sampling_search": "SamplingSearch",
        "search": "Search",
        "search_settings": "SearchSettings get_search",
    },
)

__all__ = [
    "SEARCHES",
    "BeamSearch",
    "Constraint",
    "ForbiddenTokens",
    "GreedySearch",
    "Hypotheses",
    "LengthLimits",
    "NoRepeatNgram",
    "RepetitionPenalty",
    "SamplingSearch",
    "Search",
    "SearchSettings",
    "get_search",
    "register_search",
    "registered_searches",
]
