"""A section of a recipe: a frozen dataclass whose fields know how they are checked."""

import dataclasses
import functools
import re

from keras_transformer.trainer.recipe.recipe_error import RecipeError


def setting(default, check, **arguments):
    """A field of a section: its default, and a check of `keras_transformer.checks`.

    Args:
        default: what holds where a recipe says nothing.
        check: a function of the field's name and value that returns the value or raises.
        **arguments: what else the check takes.
    """
    metadata = {"check": functools.partial(check, **arguments)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def or_null(check):
    """The same check, of a value that may also be missing."""

    def checked(name, value, **arguments):
        if value is None:
            return None
        try:
            return check(name, value, **arguments)
        except ValueError as error:
            own = f"`{name}` must be "
            raise ValueError(str(error).replace(own, f"{own}null or ", 1)) from error

    return checked


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Base of the sections: checks all fields when made, and raises all mistakes together.

    Subclasses name themselves in `key`, declare each field with `setting`, and say in
    `disagreements` which fields do not go together.
    """

    key = ""

    def __post_init__(self):
        values, mistakes = check_fields(type(self), vars(self), prefix=f"{self.key}.")
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if mistakes or (mistakes := list(self.disagreements())):
            raise RecipeError(mistakes)

    def disagreements(self):
        """Yields a line for each mistake that is in no field alone."""
        return ()

    def to_dictionary(self):
        """All fields, as the types that JSON and YAML have."""
        return {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def check_fields(kind, values, prefix=""):
    """Returns the checked values of those fields that are declared with `setting`, and mistakes.

    Args:
        kind: the dataclass.
        values: a mapping from its fields; those that are not in it are not checked.
        prefix: of the names in messages.
    """
    checked, mistakes = {}, []
    for field in dataclasses.fields(kind):
        if field.name in values and "check" in field.metadata:
            try:
                name = prefix + field.name
                checked[field.name] = field.metadata["check"](name, values[field.name])
            except RecipeError as error:
                mistakes.extend(error.mistakes)
            except ValueError as error:
                mistakes.append(str(error))
    return checked, mistakes


def plain(value):
    """The value with lists for tuples, and nothing in it shared with the recipe.

    >>> plain({"files": ("a", "b")})
    {'files': ['a', 'b']}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def with_dotted_names(message, dotted_names, section):
    """The message of another part of the package, with the names that a recipe has for things.

    >>> with_dotted_names("`width` must be even.", {"width": "model.width"}, "model")
    '`model.width` must be even.'
    >>> with_dotted_names("This has no options.", {}, "text.options")
    '`text.options`: This has no options.'

    Args:
        message: what an error said, with names in backticks.
        dotted_names: a mapping from such names to dotted keys.
        section: the key to name if the message names none.
    """
    names = re.findall(r"`(\w+)`", message)
    if not any(name in dotted_names for name in names):
        return f"`{section}`: {message}"
    return re.sub(r"`(\w+)`", lambda match: f"`{dotted_names.get(match[1], match[1])}`", message)
