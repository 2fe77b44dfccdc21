"""From a file to a recipe."""

import difflib
import os
import pathlib

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipe_file import GivenRecipe, RecipeError


def recipe_difference(old, new):
    """Returns a list of (dotted key, old value, new value); what one of them has not is None.

    Args:
        old, new: `Recipe`s.

    Example:

    >>> longer = load_recipe("quickstart", overrides=["training.warmup_steps=300"])
    >>> recipe_difference(load_recipe("quickstart"), longer)
    [('training.warmup_steps', 150, 300)]
    """
    before, after = dict(_leaves(old.to_dictionary())), dict(_leaves(new.to_dictionary()))
    return [
        (key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _leaves(dictionary, prefix=""):
    for key, value in dictionary.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_SHIPPED = pathlib.Path(__file__).with_name("shipped")


def load_recipe(path_or_name, overrides=()):
    """Returns the `Recipe` in a file, or one that comes with the package.

    >>> recipe = load_recipe("quickstart", overrides=["training.steps=500", "model.dropout=0.1"])
    >>> recipe.training.steps, recipe.data.builtin
    (500, 'dates')

    Args:
        path_or_name: the path of a YAML file, or one of `shipped_recipes()`.
        overrides: texts such as "training.steps=100"; the last one holds.

    Raises:
        UserError: with the file and line of each mistake.
    """
    given = read_given(path_or_name)
    for override in overrides:
        given.set(override)
    try:
        return Recipe.from_dictionary(given.values)
    except RecipeError as error:
        raise given.located(error.mistakes) from error


def read_given(path_or_name):
    """Returns the `GivenRecipe` in a file: what stands there, not checked yet."""
    path = _find(path_or_name)
    return GivenRecipe(path, _read(path))


def shipped_recipes():
    """The names of the recipes that come with the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def _find(path_or_name):
    name = os.fspath(path_or_name)
    shipped = shipped_recipes()
    if name in shipped:
        return _SHIPPED / f"{name}.yaml"
    path = pathlib.Path(name)
    if path.exists():
        return path
    near = difflib.get_close_matches(path.stem, shipped, n=1)
    hint = f" Did you mean {near[0]!r}?" if near and path.name == name else ""
    raise UserError(
        f"{name}: no such file (the current directory is {os.getcwd()}), and no recipe of the "
        f"package, which has {', '.join(shipped)}.{hint}"
    )


def _read(path):
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 ({error.reason}). Save it as UTF-8.") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error
