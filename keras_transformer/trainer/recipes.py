"""Loading of recipes from files or by name, and the differences between two recipes."""

import difflib
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.types import Path
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipe_file import Override, RecipeError, RecipeFile
from keras_transformer.trainer.section import leaves

_SHIPPED = pathlib.Path(__file__).with_name("shipped")


def load_recipe(path_or_name: Path, overrides: Iterable[str | Override] = ()) -> Recipe:
    """Returns the recipe in a file, or one that the package ships.

    Args:
        path_or_name: Path of a YAML file, or one of `shipped_recipes()`.
        overrides: `Override`s, or text such as "training.steps=100". The last value of a key wins.

    Raises:
        UserError: With the location of each mistake.

    >>> recipe = load_recipe("quickstart", overrides=["training.steps=500", "model.dropout=0.1"])
    >>> recipe.training.steps, recipe.data.builtin
    (500, 'dates')
    """
    return make_recipe(read_recipe_file(path_or_name), overrides)


def make_recipe(file: RecipeFile, overrides: Iterable[str | Override] = ()) -> Recipe:
    """Returns the recipe of a file that has been read, with the overrides of `load_recipe`."""
    for override in overrides:
        file.set(Override.parse(override) if isinstance(override, str) else override)
    try:
        return Recipe.from_dictionary(file.values)
    except RecipeError as error:
        raise file.located(error) from error


def read_recipe_file(path_or_name: Path) -> RecipeFile:
    """Returns the unchecked keys and values of a YAML file, or of one of `shipped_recipes()`."""
    name = os.fspath(path_or_name)
    shipped = shipped_recipes()
    if name in shipped:
        return RecipeFile.read(_SHIPPED / f"{name}.yaml")
    path = pathlib.Path(name)
    if path.exists():
        return RecipeFile.read(path)
    near = difflib.get_close_matches(path.stem, shipped, n=1)
    raise UserError(
        f"no such file (the current directory is {os.getcwd()}), and no recipe of the package, "
        f"which has {', '.join(shipped)}.",
        where=name,
        fix=f"Did you mean {near[0]!r}?" if near and path.name == name else None,
    )


def shipped_recipes() -> list[str]:
    """Returns the names of the recipes that the package ships."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


class Difference(NamedTuple):
    """A dotted key whose value differs between two recipes; None if a recipe has no such key."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key} was {self.old!r}, is {self.new!r}"


def recipe_difference(old: Recipe, new: Recipe) -> list[Difference]:
    """Returns the keys whose values differ between two recipes.

    >>> longer = load_recipe("quickstart", overrides=["training.warmup_steps=300"])
    >>> recipe_difference(load_recipe("quickstart"), longer)
    [Difference(key='training.warmup_steps', old=150, new=300)]
    """
    before, after = (dict(leaves(recipe.to_dictionary())) for recipe in (old, new))
    return [
        Difference(key, before.get(key), after.get(key))
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
