"""Settings of a search as plain values, and searches by name. Imports no TensorFlow at first."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import (
    require_choice,
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_integer,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.decoding.registry import registered_searches, search_class
from keras_transformer.text.special_ids import SpecialIds

if TYPE_CHECKING:
    from keras_transformer.decoding.constraints import Constraint, LengthLimits
    from keras_transformer.decoding.sampling_search import SamplingSearch
    from keras_transformer.decoding.search import Search

# Fields of `SearchSettings` that become the `lengths` and the `constraints` of any search.
_LENGTHS = ("max_length", "max_length_ratio", "max_length_margin", "min_length", "min_length_ratio")
_CONSTRAINTS = ("no_repeat_ngram", "repetition_penalty", "forbidden_ids")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of a search as plain values, for recipes, command lines and exports.

    `make` returns the search, and `make_sampling` a sampling search with the same limits and
    constraints.

    Args:
        method: String. Name of a registered search. Defaults to "beam", which is greedy search with
            one beam.
        beams: Integer. Hypotheses that are followed at once. Defaults to 4.
        length_penalty: Float. Larger values prefer longer hypotheses; 0 ranks by log-probability.
            Defaults to 0.6.
        coverage_penalty: Float. Penalty for source tokens that received little attention. Defaults
            to 0, no penalty.
        max_length: Integer. Maximum number of tokens, end id included. Defaults to what the model
            is made for.
        max_length_ratio: Float. Maximum number of tokens relative to the source. Defaults to 1, and
            for a model without a source to None, which means no such limit.
        max_length_margin: Integer. Tokens added to the relative maximum. Defaults to 50.
        min_length: Integer. Minimum number of tokens. Defaults to 1.
        min_length_ratio: Float. Minimum number of tokens relative to the source. Defaults to 0.
        no_repeat_ngram: Integer. Size of n-grams that may occur once only. Defaults to 0, no such
            constraint.
        repetition_penalty: Float of at least 1. Factor of the log-probability of tokens that
            occurred before. Defaults to 1, no penalty.
        forbidden_ids: Integers. Tokens that are never chosen. Defaults to none.
        top_k: Integer. Sampling draws among this number of most likely tokens. Defaults to None, no
            limit.
        top_p: Float. Sampling draws among the most likely tokens with this total probability.
            Defaults to None, no limit.

    >>> SearchSettings(beams=1, no_repeat_ngram=3).make(longest=100).constraints
    (NoRepeatNgram(size=3),)
    """

    method: str = "beam"
    beams: int = 4
    length_penalty: float = 0.6
    coverage_penalty: float = 0.0
    max_length: int | None = None
    max_length_ratio: float | None = None
    max_length_margin: int | None = None
    min_length: int = 1
    min_length_ratio: float = 0.0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    forbidden_ids: tuple[int, ...] = ()
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        require_choice("method", self.method, registered_searches())
        for name in ("beams", "min_length"):
            require_positive_integer(name, getattr(self, name))
        if self.max_length is not None:
            require_positive_integer("max_length", self.max_length)
            if self.min_length > self.max_length:
                raise ArgumentError(
                    "min_length", f"at most `max_length`, {self.max_length}", self.min_length
                )
        if self.max_length_margin is not None:
            require_integer("max_length_margin", self.max_length_margin, 0)
        if self.max_length_ratio is not None:
            require_not_negative("max_length_ratio", self.max_length_ratio)
        for name in ("length_penalty", "coverage_penalty", "min_length_ratio"):
            require_not_negative(name, getattr(self, name))
        require_integer("no_repeat_ngram", self.no_repeat_ngram, 0)
        if require_positive("repetition_penalty", self.repetition_penalty) < 1:
            raise ArgumentError("repetition_penalty", "at least 1", self.repetition_penalty)
        if not isinstance(self.forbidden_ids, list | tuple):
            raise ArgumentError("forbidden_ids", "a list of ids", self.forbidden_ids)
        ids = tuple(require_integer("forbidden_ids", number, 0) for number in self.forbidden_ids)
        object.__setattr__(self, "forbidden_ids", ids)
        require_top_k("top_k", self.top_k)
        require_top_p("top_p", self.top_p)

    def make(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> "Search":
        """Returns the search.

        Args:
            longest: Integer. Default of `max_length`. Defaults to 256.
            has_source: Boolean. Whether the model has a source that lengths can be relative to.
                Defaults to True.
            special_ids: `SpecialIds` of the model. Defaults to `SpecialIds()`.
        """
        is_greedy = self.method == "beam" and self.beams == 1 and not self.coverage_penalty
        kind = search_class("greedy" if is_greedy else self.method)
        # Settings of sampling are for `make_sampling`.
        sampling = _settings_of(search_class("sampling"))
        used = {*_settings_of(kind), *sampling, *_LENGTHS, *_CONSTRAINTS, "method"}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in used and value != field.default and not is_greedy:
                raise ArgumentError(field.name, f"left out with method {self.method!r}", value)
        return self._make(kind, longest, has_source, special_ids)

    def make_sampling(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> "SamplingSearch":
        """Returns a sampling search with these limits and constraints; arguments as in `make`."""
        return self._make(search_class("sampling"), longest, has_source, special_ids)

    def _make(self, kind: "type[Search]", *arguments: Any) -> Any:
        own = _settings_of(kind)
        names = [field.name for field in dataclasses.fields(self) if field.name in own]
        return kind(**self.shared(*arguments), **{name: getattr(self, name) for name in names})

    def shared(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> dict[str, Any]:
        """Returns the settings `lengths` and `constraints` of a search; arguments as in `make`."""
        return {
            "lengths": self._length_limits(longest, has_source),
            "constraints": tuple(self._constraints(special_ids or SpecialIds())),
        }

    def _length_limits(self, longest: int, has_source: bool) -> "LengthLimits":
        from keras_transformer.decoding.constraints import LengthLimits

        relative = {}
        if self.max_length_ratio is not None or (not has_source and self.max_length_margin is None):
            relative["maximum_ratio"] = self.max_length_ratio
        if self.max_length_margin is not None:
            relative["maximum_margin"] = self.max_length_margin
        default = max(longest, self.min_length)
        return LengthLimits(
            maximum=default if self.max_length is None else self.max_length,
            minimum=self.min_length,
            minimum_ratio=self.min_length_ratio,
            **relative,
        )

    def _constraints(self, special_ids: SpecialIds) -> "Iterator[Constraint]":
        """Yields the constraints, in the order in which a search applies them."""
        from keras_transformer.decoding.constraints import (
            ForbiddenTokens,
            NoRepeatNgram,
            RepetitionPenalty,
        )

        if self.no_repeat_ngram:
            yield NoRepeatNgram(self.no_repeat_ngram)
        if self.repetition_penalty != 1:
            yield RepetitionPenalty(self.repetition_penalty)
        if self.forbidden_ids:
            forbidden = ForbiddenTokens(self.forbidden_ids)
            try:
                forbidden.require_end_allowed(special_ids)
            except ArgumentError as error:
                raise error.renamed("forbidden_ids") from None
            yield forbidden


def get_search(
    search: "str | Search | SearchSettings" = "beam",
    *,
    longest: int = 256,
    has_source: bool = True,
    special_ids: SpecialIds | None = None,
    **settings: Any,
) -> "Search":
    """Returns a search given by name, as an object or as `SearchSettings`.

    >>> get_search("beam", beams=2, max_length=20).lengths.maximum
    20

    Args:
        search: Name of a registered search ("greedy", "beam", "sampling"), a `Search`, or
            `SearchSettings`. Defaults to "beam".
        longest: Integer. Default of the maximum length. Defaults to 256.
        has_source: Boolean. Whether the model has a source that lengths can be relative to.
            Defaults to True.
        special_ids: `SpecialIds` of the model. Defaults to `SpecialIds()`.
        **settings: Settings of a search that is given by name: those of its class, such as `beams`
            or `temperature`, and those of `SearchSettings` for lengths and constraints, such as
            `max_length` or `no_repeat_ngram`.
    """
    if not isinstance(search, str):
        if settings:
            raise UserError(
                f"Settings must be given with the name of a search; got {', '.join(settings)} with "
                f"{search!r}.",
                fix="Set them in the object.",
            )
        if isinstance(search, SearchSettings):
            return search.make(longest, has_source, special_ids)
        from keras_transformer.decoding.search import Search

        if not isinstance(search, Search):
            names = ", ".join(map(repr, registered_searches()))
            raise ArgumentError("search", f"one of {names}, a Search or SearchSettings", search)
        return search
    kind = search_class(search)
    own = _settings_of(kind)
    for name in settings:
        require_choice(f"setting of {search} search", name, {*own, *_LENGTHS, *_CONSTRAINTS})
    plain = {}
    for whole, parts in (("lengths", _LENGTHS), ("constraints", _CONSTRAINTS)):
        given = {name: settings.pop(name) for name in parts if name in settings}
        if given and whole in settings:
            raise UserError(f"Give `{whole}` or {', '.join(given)}, not both.")
        plain |= given
    shared = SearchSettings(**plain).shared(longest, has_source, special_ids)
    return kind(**{**shared, **settings})


def _settings_of(kind: "type[Search]") -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def require_top_k(name: str, value: Any) -> None:
    """Checks a setting that limits sampling to the most likely tokens; None for no limit."""
    if value is not None:
        require_positive_integer(name, value)


def require_top_p(name: str, value: Any) -> None:
    """Checks a setting that limits sampling to a total probability; None for no limit."""
    if value is not None and require_positive(name, value) > 1:
        raise ArgumentError(name, "at most 1", value)
