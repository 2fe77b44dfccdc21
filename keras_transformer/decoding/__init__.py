"""Search over a step function: greedy search, beam search, sampling, and constraints on tokens."""

from typing import TYPE_CHECKING

from keras_transformer._utils.lazy import import_lazily

if TYPE_CHECKING:
    from keras_transformer.decoding.beam_search import BeamSearch
    from keras_transformer.decoding.constraints import (
        Constraint,
        ForbiddenTokens,
        ForcedFirstToken,
        LengthLimits,
        NoRepeatNgram,
        RepetitionPenalty,
    )
    from keras_transformer.decoding.greedy_search import GreedySearch
    from keras_transformer.decoding.sampling_search import SamplingSearch
    from keras_transformer.decoding.search import Hypotheses, Search
    from keras_transformer.decoding.search_settings import (
        SEARCHES,
        SearchSettings,
        get_search,
        register_search,
        registered_searches,
    )

import_lazily(
    __name__,
    {
        "beam_search": "BeamSearch",
        "constraints": (
            "Constraint ForbiddenTokens ForcedFirstToken LengthLimits NoRepeatNgram "
            "RepetitionPenalty"
        ),
        "greedy_search": "GreedySearch",
        "sampling_search": "SamplingSearch",
        "search": "Hypotheses Search",
        "search_settings": (
            "SEARCHES SearchSettings get_search register_search registered_searches"
        ),
    },
)

__all__ = [
    "SEARCHES",
    "BeamSearch",
    "Constraint",
    "ForbiddenTokens",
    "ForcedFirstToken",
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
