"""Base of the sections of a recipe: dataclasses whose fields declare their default and their check.

The `argument` of a mistake is a dotted key; all mistakes are raised together as a `RecipeError`.
"""

import dataclasses
import functools
import importlib
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from keras_transformer._utils import checks
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.trainer.recipe_file import RecipeError

#: Takes the dotted key and the value of a setting; returns the value or raises `ArgumentError`.
Check = Callable[..., Any]


def setting(default: Any, check: Check, **arguments: Any) -> Any:
    """Declares a field with its default and a check, which gets key, value and the arguments."""
    metadata = {"check": functools.partial(check, **arguments)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def or_null(check: Check) -> Check:
    """Returns a check that also allows None, which is `null` in a recipe."""

    def checked(name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(name, value)
        except ArgumentError as error:
            raise ArgumentError(
                error.argument, f"null or {error.expected}", error.got, fix=error.fix
            ) from error

    return checked


def one_of(*choices: str) -> Check:
    """Returns a check that allows these values."""
    return functools.partial(checks.require_choice, choices=choices)


def registered(place: str, *others: str) -> Check:
    """Returns a check that allows the names in a registry, see `load_registry`, and `others`."""

    def checked(name: str, value: Any) -> Any:
        if value in others:
            return value
        return checks.require_choice(name, value, {*load_registry(place), *others})

    return checked


def load_registry(place: str) -> Any:
    """Imports and returns the registry that `place`, such as "package.module:ATTRIBUTE", names.

    A registry that is a function is called. Some of them import TensorFlow.
    """
    module, _, attribute = place.partition(":")
    registry = getattr(importlib.import_module(module), attribute)
    return registry() if callable(registry) else registry


def require_options(
    name: str,
    options: Mapping[str, Any],
    function: Callable[..., Any],
    owner: str,
    taken: Iterable[str] = (),
) -> None:
    """Checks that a function takes the options as arguments, other than those in `taken`."""
    known = set(inspect.signature(function).parameters) - set(taken)
    for option in options:
        if not known:
            raise UserError(f"{owner!r} has no options; got {option!r}.", argument=name)
        checks.require_choice(f"{name}.{option}", option, known)


def list_of(check: Check) -> Check:
    """Returns a check of a list of one or more items that pass `check`; it becomes a tuple."""

    def checked(name: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise ArgumentError(name, "a list of names", value)
        return tuple(check(name, item) for item in value)

    return checked


def require_texts(name: str, value: Any) -> dict[str, str]:
    """Returns `value` if it is a mapping from names to text."""
    values = checks.require_mapping(name, value)
    return {key: checks.require_text(f"{name}.{key}", text) for key, text in values.items()}


def require_files(name: str, value: Any) -> tuple[str, ...]:
    """Returns one or two paths or patterns as a tuple, which is empty if there are none."""
    if value is None:
        return ()
    files = (value,) if isinstance(value, str) else value
    if not isinstance(files, list | tuple) or len(files) > 2:
        fix = "For several files on a side write a pattern, such as 'train.*.en'."
        raise ArgumentError(name, "a file or pattern, or a list of one or two", value, fix=fix)
    return tuple(checks.require_text(name, file) for file in files)


def require_file_sets(name: str, value: Any) -> dict[str, tuple[str, ...]]:
    """Returns a mapping from names to one or two paths or patterns."""
    sets = {}
    for key, files in checks.require_mapping(name, value).items():
        if not re.fullmatch(r"[\w-]+", key):
            raise ArgumentError(name, "a mapping whose names have letters, digits, _ and -", key)
        sets[key] = require_files(f"{name}.{key}", files)
        if not sets[key]:
            raise ArgumentError(f"{name}.{key}", "one or two files", files)
    return sets


def require_step_range(name: str, value: Any) -> tuple[int, int]:
    """Returns the first and the last of a range of steps."""
    if isinstance(value, list | tuple) and len(value) == 2:
        first, last = (checks.require_positive_integer(name, step) for step in value)
        if first <= last:
            return first, last
    expected = "a list of the first and the last step, such as [100, 110]"
    raise ArgumentError(name, expected, value)


def require_directory_name(name: str, value: Any) -> str:
    """Returns `value` if it can be the name of a directory on every system."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", checks.require_text(name, value)):
        return value
    expected = "the name of a directory: at most 100 letters, digits, _, - and ., not - or . first"
    raise ArgumentError(name, expected, value)


def check_fields(
    kind: type[Any], values: Mapping[str, Any], prefix: str = ""
) -> tuple[dict[str, Any], list[UserError]]:
    """Returns the checked values of a dataclass's fields, and the mistakes, with prefixed names."""
    checked: dict[str, Any] = {}
    mistakes: list[UserError] = []
    for field in dataclasses.fields(kind):
        if field.name in values and "check" in field.metadata:
            try:
                name = prefix + field.name
                checked[field.name] = field.metadata["check"](name, values[field.name])
            except RecipeError as error:
                mistakes.extend(error.mistakes)
            except UserError as error:
                mistakes.append(error)
    return checked, mistakes


def in_section(error: UserError, section: str, keys: Iterable[str] = ()) -> UserError:
    """Returns an error about the values of a section, or key, with the dotted keys of a recipe.

    The location of the error may be one of `keys`.

    >>> in_section(ArgumentError("num_heads", "a positive integer", 0), "model").argument
    'model.num_heads'
    """
    if error.where is not None and error.where in keys:
        section, error = f"{section}.{error.where}", error.moved(None)
    if error.argument is None:
        return error.renamed(section)
    return error.renamed({name: f"{section}.{name}" for name in error.arguments})


def conflict(
    values: object, key: str, expected: str, *related: str, fix: str | None = None
) -> ArgumentError:
    """Returns the mistake that a key of a section, or recipe, does not fit related keys."""
    got = plain(operator.attrgetter(key)(values))
    return ArgumentError(key, expected, got, fix=fix, related=related)


def leaves(dictionary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the dotted key, such as "text.shared", and the value of all in nested dictionaries."""
    for key, value in dictionary.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def plain(value: Any) -> Any:
    """Returns a copy of a value with lists in place of tuples."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Base of the sections of a recipe, which check their fields when they are created.

    Subclasses name their key, declare each field with `setting`, and may override `conflicts`.
    """

    #: Key of the section in a recipe.
    key: ClassVar[str]

    def __init_subclass__(cls, key: str) -> None:
        cls.key = key

    def __post_init__(self) -> None:
        values, mistakes = check_fields(type(self), vars(self), prefix=f"{self.key}.")
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not mistakes:
            mistakes = [in_section(error, self.key) for error in self.conflicts()]
        if mistakes:
            raise RecipeError(mistakes)

    def conflicts(self) -> Iterator[UserError]:
        """Yields a mistake, with names of fields, for values that conflict."""
        yield from ()

    def to_dictionary(self) -> dict[str, Any]:
        """Returns all fields as types that JSON and YAML have."""
        return {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
