"""What is compared: a recipe, models that differ from it, a budget and seeds."""

import dataclasses
import json
from collections.abc import Mapping

from keras_transformer.checks import (
    require_boolean,
    require_choice,
    require_mapping,
    require_seed,
    require_text,
)
from keras_transformer.comparison.budget import Budget
from keras_transformer.errors import UserError
from keras_transformer.trainer.recipe import RecipeError, load_recipe
from keras_transformer.trainer.recipe.known_keys import unknown_key
from keras_transformer.trainer.recipe.recipe import require_directory_name
from keras_transformer.trainer.recipe.section import check_fields, or_null, plain, setting

#: Sections that must be the same for all: who reads other data is not compared.
SHARED_SECTIONS = ("task", "data", "text", "batches")
QUALITIES = ("exact_match", "bleu", "loss")

# Nothing that takes time and tells nothing about the model; and nobody stops before the others.
_FOR_ALL = (
    "export.enabled=false",
    "evaluation.show=0",
    "evaluation.stop_after=null",
    "tensorboard.attention=0",
    "tensorboard.samples=0",
    "tensorboard.projector=false",
)


def _require_models(name, value):
    models = {}
    for model, changes in require_mapping(name, value).items():
        require_directory_name(name, model)
        models[model] = require_mapping(f"{name}.{model}", {} if changes is None else changes)
    if not models:
        raise ValueError(f"`{name}` must name at least one model; got none.")
    return models


def _require_seeds(name, value):
    if not isinstance(value, list | tuple) or not value or len(set(map(str, value))) < len(value):
        raise ValueError(f"`{name}` must be a list of different numbers, as [1, 2]; got {value!r}.")
    return tuple(require_seed(name, seed) for seed in value)


def _require_budget(name, value):
    if isinstance(value, Budget):
        return value
    values = require_mapping(name, {} if value is None else value)
    known = [field.name for field in dataclasses.fields(Budget)]
    unknown = [
        unknown_key(name, key, {name: known}, owner="a comparison")
        for key in values
        if key not in known
    ]
    if unknown:
        raise RecipeError(unknown)
    return Budget(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models that are trained alike, but for what is to be compared.

    Attributes:
        name: of the comparison, and of its directory.
        recipe: the path of the recipe that all of them share, or the name of one that comes with
            the package.
        models: for each name what differs from the recipe. A key without a dot is one of the
            recipe's `model`; others are dotted, as `training.learning_rate`. Where `kind` is among
            them, nothing is taken from the recipe's `model`, whose keys are another kind's.
        settings: dotted keys that differ from the recipe for all models.
        budget: a `Budget`.
        seeds: each model is trained once with each of them.
        quality: "exact_match" or "bleu", by which models are told apart beside the loss, or "loss"
            alone. Null is exact matches for a built-in corpus, and BLEU for others.
        match: whether models whose number of parameters is too far from the first one's are made
            wider or narrower, instead of refused.

    Example:

    >>> comparison = Comparison(
    ...     name="dates",
    ...     recipe="quickstart",
    ...     models={"sinusoidal": {}, "rotary": {"attention": "rotary"}},
    ...     seeds=[1, 2],
    ... )
    >>> comparison.recipe_of("rotary").model.settings["attention"]
    'rotary'
    """

    name: str = setting(dataclasses.MISSING, require_directory_name)
    recipe: str = setting(dataclasses.MISSING, require_text)
    models: Mapping = setting(dataclasses.MISSING, _require_models)
    settings: Mapping = setting({}, require_mapping)
    budget: Budget = setting({}, _require_budget)  # noqa: RUF009 (a field)
    seeds: tuple = setting((1, 2, 3), _require_seeds)
    quality: str | None = setting(None, or_null(require_choice), choices=QUALITIES)
    match: bool = setting(False, require_boolean)

    def __post_init__(self):
        values, mistakes = check_fields(type(self), vars(self))
        if mistakes:
            raise RecipeError(mistakes, origin="The comparison")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dictionary(cls, dictionary):
        """Makes a comparison of what a file says.

        Raises:
            RecipeError: with a line for each thing that is wrong.
        """
        fields = dataclasses.fields(cls)
        known = {"": [field.name for field in fields]}
        mistakes = [
            unknown_key("", key, known, owner="a comparison")
            for key in dictionary
            if key not in known[""]
        ]
        mistakes += [
            f"`{field.name}` is missing: {_ADVICE[field.name]}."
            for field in fields
            if field.name in _ADVICE and field.name not in dictionary
        ]
        given = {key: value for key, value in dictionary.items() if key in known[""]}
        mistakes += check_fields(cls, given)[1]
        if mistakes:
            raise RecipeError(mistakes, origin="The comparison")
        return cls(**given)

    def to_dictionary(self):
        """Every key with its value, as the types that JSON and YAML have."""
        names = [field.name for field in dataclasses.fields(self)]
        values = {name: plain(getattr(self, name)) for name in names}
        return {**values, "budget": self.budget.to_dictionary()}

    def recipe_of(self, model, overrides=()):
        """The `Recipe` of a model.

        Args:
            model: its name.
            overrides: more to set, texts such as "seed=2".
        """
        changes = {
            key if "." in key else f"model.{key}": value
            for key, value in self.models[model].items()
        }
        forgotten = ["model={}"] if "model.kind" in changes else []
        settings = [
            f"{key}={json.dumps(value)}" for key, value in (self.settings | changes).items()
        ]
        try:
            return load_recipe(self.recipe, [*_FOR_ALL, *forgotten, *settings, *overrides])
        except UserError as error:
            text = str(error).replace("--set ", "")
            raise UserError(f"The model {model!r} of {self.name}: {text}") from error

    def recipes(self):
        """The `Recipe` of each model, by name, with the recipe's own seed and length.

        Raises:
            UserError: if one of them cannot be used, or learns from other data than the first.
        """
        recipes = {name: self.recipe_of(name) for name in self.models}
        first, *others = recipes
        for name in others:
            for section in SHARED_SECTIONS:
                if getattr(recipes[name], section) != getattr(recipes[first], section):
                    raise UserError(
                        f"The model {name!r} of {self.name} must not change `{section}`: all "
                        f"models are compared on the same data, and {first!r} has another one. Set "
                        "it for all of them, in `settings` or with --set."
                    )
        return recipes

    def chosen_quality(self, recipe):
        """The name of the metric by which models are told apart beside the loss."""
        if recipe.task != "translation":
            return "loss"
        return self.quality or ("exact_match" if recipe.data.builtin else "bleu")


_ADVICE = {
    "name": "say what the comparison is called, such as recall",
    "recipe": "name the recipe that all models share, such as quickstart",
    "models": "name them, each with what it changes, as `rotary: {attention: rotary}`",
}
