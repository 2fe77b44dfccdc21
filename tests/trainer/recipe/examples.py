"""Two small recipes as dictionaries, and their mistakes when something in them is changed."""

import pytest

from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipe_file import RecipeError

TRANSLATION = {
    "name": "a",
    "task": "translation",
    "data": {"train": ["a.en", "a.de"], "validation": ["b.en", "b.de"]},
    "training": {"steps": 10},
}
LANGUAGE_MODEL = {
    "name": "a",
    "task": "language_model",
    "data": {"train": "a.txt"},
    "training": {"epochs": 2},
}


def changed(recipe, **sections):
    """Returns the dictionary with other values in some of its sections."""
    new = dict(recipe)
    for section, values in sections.items():
        new[section] = {**new.get(section, {}), **values} if isinstance(values, dict) else values
    return new


def recipe_error(recipe, **sections):
    """Returns the error of the dictionary with other values in some of its sections."""
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dictionary(changed(recipe, **sections))
    return caught.value
