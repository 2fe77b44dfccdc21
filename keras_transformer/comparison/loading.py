"""From a file, or a recipe and names of models, to a comparison."""

import dataclasses
import os
import pathlib

from keras_transformer.checks import require_choice
from keras_transformer.comparison.comparison import Comparison
from keras_transformer.comparison.variants import built_in_variants
from keras_transformer.errors import UserError
from keras_transformer.trainer.recipe import RecipeError, load_recipe, shipped_recipes
from keras_transformer.trainer.recipe.given_recipe import parse_override
from keras_transformer.trainer.recipe.loading import read_given


def load_comparison(
    path_or_name, *, models=None, seeds=None, tokens=None, seconds=None, overrides=(), match=False
):
    """Returns the `Comparison` in a file, or the one of a recipe with built-in variants of it.

    >>> comparison = load_comparison("quickstart", models=["transformer", "rotary"], seeds=[7])
    >>> comparison.name, comparison.models
    ('dates', {'transformer': {}, 'rotary': {'attention': 'rotary'}})

    Args:
        path_or_name: the path of a comparison or of a recipe, or the name of a recipe that comes
            with the package.
        models: names of models, of the file or built in, in the order of the table. None is all of
            the file.
        seeds, tokens, seconds: instead of the file's.
        overrides: texts such as "training.warmup_steps=100", for all models.
        match: see `Comparison`.

    Raises:
        UserError: with the file and line of each mistake.
    """
    given = read_given(path_or_name)
    if not {"models", "recipe"} & set(given.values):
        comparison = _of_recipe(path_or_name, models)
    else:
        comparison = _of_file(given, path_or_name)
    known = {**built_in_variants(load_recipe(comparison.recipe).task), **comparison.models}
    changes = {}
    if models is not None:
        changes["models"] = {name: known[_require_known(name, known)] for name in models}
    if seeds is not None:
        changes["seeds"] = seeds
    if tokens is not None or seconds is not None:
        changes["budget"] = {"tokens": tokens, "seconds": seconds}
    if overrides:
        changes["settings"] = {**comparison.settings, **dict(map(parse_override, overrides))}
    if match:
        changes["match"] = True
    return dataclasses.replace(comparison, **changes)


def _of_recipe(path_or_name, models):
    recipe = load_recipe(path_or_name)
    if not models:
        raise UserError(
            f"{path_or_name}: is a recipe, which does not say what to compare. Name models with "
            f"--models, of {', '.join(built_in_variants(recipe.task))}."
        )
    # The names are looked up by who calls.
    return Comparison(name=recipe.name, recipe=os.fspath(path_or_name), models={"transformer": {}})


def _of_file(given, path_or_name):
    try:
        comparison = Comparison.from_dictionary(given.values)
    except RecipeError as error:
        raise given.located(error.mistakes) from error
    if comparison.recipe in shipped_recipes():
        return comparison
    # Beside the comparison, wherever that is read from.
    recipe = pathlib.Path(path_or_name).parent / comparison.recipe
    return dataclasses.replace(comparison, recipe=os.path.normpath(recipe))


def _require_known(name, known):
    try:
        return require_choice("--models", name, known)
    except ValueError as error:
        raise UserError(str(error).replace("`", "")) from error
