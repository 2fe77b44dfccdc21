"""Searches by name: their registry, and their settings as plain values. Imports no TensorFlow."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from keras_transformer._utils.checks import (
    require_at_least_one,
    require_choice,
    require_integer,
    require_not_negative,
    require_positive_integer,
    require_positive_share,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer._utils.registry import FileRegistry, Kind, register
from keras_transformer.text.special_ids import SpecialIds

if TYPE_CHECKING:
    from keras_transformer.decoding.constraints import Constraint
    from keras_transformer.decoding.sampling_search import SamplingSearch
    from keras_transformer.decoding.search import Search

#: Classes of the searches whose files have been imported, by name.
SEARCHES: "FileRegistry[type[Search]]" = FileRegistry(__name__, "search")


def register_search(name: str) -> Callable[[Kind], Kind]:
    """Returns a class decorator that registers the search of a file `<name>_search.py`."""
    return register(SEARCHES, name)


def registered_searches() -> list[str]:
    """Returns the names of all searches, sorted.

    >>> "greedy" in registered_searches()
    True
    """
    return SEARCHES.names()


def _setting(default: Any, check: Callable[..., Any], **arguments: Any) -> Any:
    """Declares a field with a check, which gets its name, its value and the further arguments."""
    metadata = {"check": functools.partial(check, **arguments)}
    return dataclasses.field(default=default, metadata=metadata)


def _require_search(name: str, value: Any) -> None:
    require_choice(name, value, registered_searches())


def _require_ids(name: str, value: Any) -> None:
    if not isinstance(value, list | tuple):
        raise ArgumentError(name, "a list of ids", value)
    for number in value:
        require_integer(name, number, 0)


#: What users can do who want to sample, for messages about a search that does not.
SAMPLING_FIX = (
    "To sample, give a temperature: `keras-transformer translate --temperature 1`, "
    "`temperature=1` in Python, or the signature `sample` of an export."
)

#: What the exponent `length_penalty` is applied to, see `Search`.
LENGTH_NORMALIZATIONS = ("gnmt", "length")
#: When a beam search stops, see `BeamSearch`.
STOPPING = ("narrow", "early", "heuristic", "never")

# Fields of `SearchSettings` that become the `lengths` and the `constraints` of any search.
_LENGTHS = ("max_length", "max_length_ratio", "max_length_margin", "min_length", "min_length_ratio")
_CONSTRAINTS = ("no_repeat_ngram", "repetition_penalty", "forbidden_ids", "forced_first_id")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of a search as plain values, for recipes, command lines and exports.

    `make` returns the search, `make_sampling` a sampling search with the same limits and
    constraints, and `make_both` the two searches of an export.

    Args:
        method: Name of a registered search. Default: "beam".
        beams: Hypotheses that are followed at once; 1 is greedy search. Default: 4.
        length_penalty: Larger values prefer longer texts; 0 ranks by probability. Default: 0.6.
        length_normalization: "gnmt", the penalty of Wu et al. 2016; or "length", that of Hugging
            Face. Default: "gnmt".
        stopping: "narrow", or as in Hugging Face "early", "heuristic" or "never"; see `BeamSearch`.
            Default: "narrow".
        coverage_penalty: Penalty for ignored parts of the source. Default: 0, no penalty.
        max_length: Maximum number of tokens, end id included. Default: the model's maximum; for a
            language model, half of it and at most 256.
        max_length_ratio: Maximum relative to the source's tokens. Default: 1; no such limit for a
            model without a source.
        max_length_margin: Tokens added to the relative maximum. Default: 50.
        min_length: Minimum number of tokens, end id included. Default: 1.
        min_length_ratio: Minimum relative to the source's tokens. Default: 0.
        no_repeat_ngram: Size of token sequences that may occur once only. Default: 0, no limit.
        repetition_penalty: Factor, at least 1, of the log-probability of tokens that occurred
            before. Default: 1, no penalty.
        forbidden_ids: Tokens that are never chosen. Default: none.
        forced_first_id: Token that every text begins with, such as a language's. Default: none.
        top_k: Number of most likely tokens that sampling draws among. Default: all.
        top_p: Total probability of the most likely tokens that sampling draws among. Default: no
            limit.

    >>> SearchSettings(beams=1, no_repeat_ngram=3).make(longest=100).constraints
    (NoRepeatNgram(size=3),)
    """

    # Each field needs a type in `_OPTION_TYPES` of `cli/shared.py`, and an entry in the docstring
    # of the form `name: Text. Default: text.`, from which `descriptions` makes the option's help.
    method: str = _setting("beam", _require_search)
    beams: int = _setting(4, require_positive_integer)
    length_penalty: float = _setting(0.6, require_not_negative)
    length_normalization: str = _setting("gnmt", require_choice, choices=LENGTH_NORMALIZATIONS)
    stopping: str = _setting("narrow", require_choice, choices=STOPPING)
    coverage_penalty: float = _setting(0.0, require_not_negative)
    max_length: int | None = _setting(None, require_positive_integer)
    max_length_ratio: float | None = _setting(None, require_not_negative)
    max_length_margin: int | None = _setting(None, require_integer, minimum=0)
    min_length: int = _setting(1, require_positive_integer)
    min_length_ratio: float = _setting(0.0, require_not_negative)
    no_repeat_ngram: int = _setting(0, require_integer, minimum=0)
    repetition_penalty: float = _setting(1.0, require_at_least_one)
    forbidden_ids: tuple[int, ...] = _setting((), _require_ids)
    forced_first_id: int | None = _setting(None, require_integer, minimum=0)
    top_k: int | None = _setting(None, require_positive_integer)
    top_p: float | None = _setting(None, require_positive_share)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                field.metadata["check"](field.name, value)
        if self.max_length is not None and self.min_length > self.max_length:
            expected = f"at most `max_length`, {self.max_length}"
            raise ArgumentError("min_length", expected, self.min_length)
        object.__setattr__(self, "forbidden_ids", tuple(self.forbidden_ids))

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Returns the description of each field, from the docstring, for options and tables.

        >>> SearchSettings.descriptions()["beams"]
        'hypotheses that are followed at once; 1 is greedy search (default: 4)'
        """
        # An entry ends where the next one begins, or at a blank line.
        entries = re.findall(
            r"^    (\w+): (.+?)$(?=\n    \w|\n\n|\Z)", inspect.getdoc(cls) or "", re.M | re.S
        )
        texts = {name: " ".join(text.split()) for name, text in entries}
        descriptions = {}
        for field in dataclasses.fields(cls):
            found = re.fullmatch(r"(.+)\. Default: (.+)\.", texts.get(field.name, ""))
            if found is None:
                form = f"{field.name}: Text. Default: text."
                raise ArgumentError(
                    field.name,
                    f"described as `{form}` in the docstring of {cls.__name__}",
                    texts.get(field.name, "no description"),
                )
            text, default = found.groups()
            descriptions[field.name] = f"{text[0].lower()}{text[1:]} (default: {default})"
        return descriptions

    def require_used(self, names: Iterable[str] | None = None, is_sampling: bool = False) -> None:
        """Raises an `ArgumentError` for a setting that the search does not have.

        Settings with their default value are accepted.

        Args:
            names: Names of the settings to check. Default: all.
            is_sampling: Whether a temperature is given, so that texts are sampled whatever the
                `method` is. Default False.

        >>> SearchSettings(top_p=0.9).require_used(is_sampling=True)
        """
        search = "sampling" if is_sampling else self.method
        used = {*_settings_of(SEARCHES.find(search)), *_LENGTHS, *_CONSTRAINTS}
        if not is_sampling:
            used.add("method")
        checked = _settings_of(type(self)) if names is None else set(names)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in checked - used and value != field.default:
                expected = f"left out with the search {search!r}, which does not have it"
                if is_sampling:
                    fix = "Leave it out, or leave out the temperature, which samples."
                else:
                    fix = _fix_of_unused(field.name)
                raise ArgumentError(field.name, expected, value, fix=fix)

    def make(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> "Search":
        """Returns the search, which must have all settings that differ from their defaults.

        Args:
            longest: Default of `max_length`.
            has_source: Whether the model has a source that lengths can be relative to.
            special_ids: Those of the model. Defaults to `SpecialIds()`.
        """
        self.require_used()
        return self._make(self._kind(), longest, has_source, special_ids)

    def make_sampling(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> "SamplingSearch":
        """Returns a sampling search with these limits and constraints; arguments as in `make`."""
        return self._make(SEARCHES.find("sampling"), longest, has_source, special_ids)

    def make_both(
        self, longest: int = 256, has_source: bool = True, special_ids: SpecialIds | None = None
    ) -> "tuple[Search, SamplingSearch]":
        """Returns the search and the sampling search of an export; arguments as in `make`.

        The search must be deterministic, and each setting must be one of either search.
        """
        sampling = self.make_sampling(longest, has_source, special_ids)
        names = {field.name for field in dataclasses.fields(self)} - _settings_of(type(sampling))
        self.require_used(names)
        search = self._make(self._kind(), longest, has_source, special_ids)
        if search.call_inputs:
            deterministic = [
                repr(name)
                for name in registered_searches()
                if not SEARCHES.find(name)().call_inputs
            ]
            expected = f"a deterministic search, one of {', '.join(deterministic)}"
            raise ArgumentError(
                "method", expected, self.method, fix=f"Leave it out. {SAMPLING_FIX}"
            )
        self.require_used(_settings_of(type(self)) - _settings_of(type(sampling)))
        return search, sampling

    def _kind(self) -> "type[Search]":
        is_greedy = self.method == "beam" and self.beams == 1 and not self.coverage_penalty
        return SEARCHES.find("greedy" if is_greedy else self.method)

    def _make(self, kind: "type[Search]", *arguments: Any) -> Any:
        names = _settings_of(kind) & _settings_of(type(self))
        return kind(**self.shared(*arguments), **{name: getattr(self, name) for name in names})

    def shared(
        self, longest: int, has_source: bool, special_ids: SpecialIds | None
    ) -> dict[str, Any]:
        """Returns the settings `lengths` and `constraints` of a search; arguments as in `make`."""
        from keras_transformer.decoding import constraints

        relative = {}
        if self.max_length_ratio is not None or (not has_source and self.max_length_margin is None):
            relative["maximum_ratio"] = self.max_length_ratio
        if self.max_length_margin is not None:
            relative["maximum_margin"] = self.max_length_margin
        lengths = constraints.LengthLimits(
            maximum=self.max_length or max(longest, self.min_length),
            minimum=self.min_length,
            minimum_ratio=self.min_length_ratio,
            **relative,
        )
        chosen: list[Constraint] = []
        if self.no_repeat_ngram:
            chosen.append(constraints.NoRepeatNgram(self.no_repeat_ngram))
        if self.repetition_penalty != 1:
            chosen.append(constraints.RepetitionPenalty(self.repetition_penalty))
        if self.forbidden_ids:
            forbidden = constraints.ForbiddenTokens(self.forbidden_ids)
            forbidden.require_end_allowed(special_ids or SpecialIds(), "forbidden_ids")
            chosen.append(forbidden)
        if self.forced_first_id is not None:
            chosen.append(constraints.ForcedFirstToken(self.forced_first_id))
        return {"lengths": lengths, "constraints": tuple(chosen)}


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
        search: Name of a registered search, a `Search`, or `SearchSettings`.
        longest: Default of the maximum length.
        has_source: Whether the model has a source that lengths can be relative to.
        special_ids: Those of the model. Defaults to `SpecialIds()`.
        **settings: Settings of a search that is given by name: those of its class, such as `beams`
            or `temperature`, and those of `SearchSettings` for lengths and constraints, such as
            `max_length` or `no_repeat_ngram`.
    """
    if not isinstance(search, str):
        if settings:
            got = f"{', '.join(settings)} with {search!r}"
            problem = f"Settings must be given with the name of a search; got {got}."
            raise UserError(problem, fix="Set them in the object.")
        if isinstance(search, SearchSettings):
            return search.make(longest, has_source, special_ids)
        from keras_transformer.decoding.search import Search

        if not isinstance(search, Search):
            names = ", ".join(map(repr, SEARCHES.names()))
            raise ArgumentError("search", f"one of {names}, a Search or SearchSettings", search)
        return search
    kind = SEARCHES.find(search)
    for name in settings:
        known = {*_settings_of(kind), *_LENGTHS, *_CONSTRAINTS}
        require_choice(f"setting of {search} search", name, known)
    plain = {}
    for whole, parts in (("lengths", _LENGTHS), ("constraints", _CONSTRAINTS)):
        given = {name: settings.pop(name) for name in parts if name in settings}
        if given and whole in settings:
            raise UserError(f"Give `{whole}` or {', '.join(given)}, not both.")
        plain |= given
    shared = SearchSettings(**plain).shared(longest, has_source, special_ids)
    return kind(**{**shared, **settings})


def _fix_of_unused(setting: str) -> str | None:
    """Returns what the user can do about a setting that the chosen search does not have."""
    owners = [name for name in SEARCHES.names() if setting in _settings_of(SEARCHES.find(name))]
    if "sampling" in owners:
        return SAMPLING_FIX
    return f"It is a setting of {', '.join(map(repr, owners))}." if owners else None


def _settings_of(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}
