"""One YAML file that decides about a training: read, checked whole, compared."""

from keras_transformer.trainer.recipe.difference import recipe_difference
from keras_transformer.trainer.recipe.loading import load_recipe, shipped_recipes
from keras_transformer.trainer.recipe.recipe import Recipe
from keras_transformer.trainer.recipe.recipe_error import RecipeError

__all__ = ["Recipe", "RecipeError", "load_recipe", "recipe_difference", "shipped_recipes"]
