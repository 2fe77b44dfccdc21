"""A search as a recipe or a command line describes it."""

import dataclasses

from keras_transformer._utils.checks import (
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
)
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import (
    ForbiddenTokens,
    LengthLimits,
    NoRepeatNgram,
    RepetitionPenalty,
)
from keras_transformer.decoding.greedy_search import GreedySearch


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """All that can be said about a search, as plain numbers.

    Attributes:
        beams: hypotheses side by side, see `BeamSearch`; 1 is a `GreedySearch`.
        length_penalty: the larger, the longer the texts; see `Search`.
        coverage_penalty: for source tokens that were not attended to; see `BeamSearch`.
        max_length: tokens at most, END included; by default as many as the model is made for.
        max_length_ratio, max_length_margin: the same relative to the source; see `LengthLimits`.
            By default those of `LengthLimits`, and none for a model without a source.
        min_length, min_length_ratio: tokens at least.
        no_repeat_ngram: how many tokens in a row must not come twice; 0 for no such rule.
        repetition_penalty: see `RepetitionPenalty`; 1 for none.
        forbidden_ids: tokens that must not come.

    >>> SearchSettings(beams=1, no_repeat_ngram=3).make(longest=100).controls
    (NoRepeatNgram(size=3),)
    """

    beams: int = BeamSearch.beams
    length_penalty: float = BeamSearch.length_penalty
    coverage_penalty: float = 0.0
    max_length: int | None = None
    max_length_ratio: float | None = None
    max_length_margin: int | None = None
    min_length: int = 1
    min_length_ratio: float = 0.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    forbidden_ids: tuple = ()

    def __post_init__(self):
        for name in ("beams", "min_length"):
            require_positive_integer(name, getattr(self, name))
        if self.max_length is not None:
            require_positive_integer("max_length", self.max_length)
            if self.min_length > self.max_length:
                raise ValueError(
                    "`min_length` must not be more than `max_length`; got "
                    f"{self.min_length} and {self.max_length}."
                )
        if self.max_length_margin is not None:
            require_integer("max_length_margin", self.max_length_margin, 0)
        if self.max_length_ratio is not None:
            require_not_negative("max_length_ratio", self.max_length_ratio)
        for name in ("length_penalty", "coverage_penalty", "min_length_ratio"):
            require_not_negative(name, getattr(self, name))
        require_integer("no_repeat_ngram", self.no_repeat_ngram, 0)
        if require_positive("repetition_penalty", self.repetition_penalty) < 1:
            raise ValueError(
                f"`repetition_penalty` must be at least 1; got {self.repetition_penalty}."
            )

    def make(self, longest, has_source=True):
        """Makes the search.

        Args:
            longest: the default of `max_length`.
            has_source: whether the model has a source for lengths to be relative to.
        """
        relative = {}
        is_said = self.max_length_ratio is not None
        if is_said or (not has_source and self.max_length_margin is None):
            relative["maximum_ratio"] = self.max_length_ratio
        if self.max_length_margin is not None:
            relative["maximum_margin"] = self.max_length_margin
        settings = {
            "length_penalty": self.length_penalty,
            "lengths": LengthLimits(
                maximum=max(longest, self.min_length)
                if self.max_length is None
                else self.max_length,
                minimum=self.min_length,
                minimum_ratio=self.min_length_ratio,
                **relative,
            ),
            "controls": self._controls(),
        }
        if self.beams == 1 and not self.coverage_penalty:
            return GreedySearch(**settings)
        return BeamSearch(**settings, beams=self.beams, coverage_penalty=self.coverage_penalty)

    def _controls(self):
        if self.no_repeat_ngram:
            yield NoRepeatNgram(self.no_repeat_ngram)
        if self.repetition_penalty != 1:
            yield RepetitionPenalty(self.repetition_penalty)
        if self.forbidden_ids:
            yield ForbiddenTokens(self.forbidden_ids)
