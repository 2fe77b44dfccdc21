"""Comparisons: models that differ from a recipe, a budget and seeds, from a file or by name."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_mapping,
    require_positive,
    require_positive_integer,
    require_seed,
    require_text,
)
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipe_file import Override, RecipeError, RecipeFile, unknown_key
from keras_transformer.trainer.recipes import load_recipe, read_recipe_file, shipped_recipes
from keras_transformer.trainer.section import (
    Section,
    check_fields,
    conflict,
    or_null,
    plain,
    registered,
    require_directory_name,
    setting,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget(Section, key="budget"):
    """The budget of every model. Without tokens and seconds it is that of the recipe.

    All models see the same batches, so equal numbers of steps are equal numbers of tokens.

    Attributes:
        tokens: Number of target tokens without padding, rounded to whole steps. Default None.
        seconds: Seconds of training, without evaluations. A short trial first measures the number
            of steps that a model makes in this time, because schedules need it. Default None.
    """

    tokens: int | None = setting(None, or_null(require_positive_integer))
    seconds: float | None = setting(None, or_null(require_positive))

    def conflicts(self) -> Iterator[UserError]:
        if self.tokens is not None and self.seconds is not None:
            expected = f"left out with seconds={self.seconds}"
            yield conflict(self, "tokens", expected, "seconds", fix="Leave one of the two out.")


#: Sections of the recipe that must be the same for all models.
SHARED_SECTIONS = ("task", "data", "text", "batches")

# Turns off early stopping, and work that takes time but does not measure the model.
_FOR_ALL = (
    "export.enabled=false",
    "evaluation.show=0",
    "evaluation.patience=null",
    "tensorboard.attention=0",
    "tensorboard.samples=0",
    "tensorboard.projector=false",
)


def _require_models(name: str, value: Any) -> dict[str, dict[str, Any]]:
    models = {}
    for model, changes in require_mapping(name, value).items():
        require_directory_name(name, model)
        models[model] = require_mapping(f"{name}.{model}", {} if changes is None else changes)
    if not models:
        raise ArgumentError(name, "a mapping with at least one model", value)
    return models


def _require_seeds(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value or len(set(map(str, value))) < len(value):
        raise ArgumentError(name, "a list of different numbers, such as [1, 2]", value)
    return tuple(require_seed(name, seed) for seed in value)


def _require_budget(name: str, value: Any) -> Budget:
    if isinstance(value, Budget):
        return value
    values = require_mapping(name, {} if value is None else value)
    if unknown := _unknown_keys(name, Budget, values):
        raise RecipeError(unknown)
    return Budget(**values)


def _unknown_keys(section: str, kind: type[Any], values: Mapping[str, Any]) -> list[UserError]:
    """Returns the mistakes of keys that are no fields of a dataclass."""
    known = [field.name for field in dataclasses.fields(kind)]
    return [unknown_key(section, key, {section: known}) for key in values if key not in known]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models that are trained in the same way, except for what is compared.

    Attributes:
        name: Name of the comparison and of its directory.
        recipe: Path of the recipe that all models share, or the name of one that the package ships.
        models: For each name, the values that differ from the recipe. A key without a dot belongs
            to the recipe's section `model`; other keys are dotted, as `training.learning_rate`. A
            model with the key `kind` gets nothing from the recipe's section `model`.
        settings: Dotted keys whose values differ from the recipe for all models. Default: none.
        budget: Length of each training. Default: that of the recipe.
        seeds: Seeds; each model is trained once with each of them. Default (1, 2, 3).
        quality: Name of the text metric that is reported in addition to the loss, or "loss".
            Default: "exact_match" for a built-in corpus, "bleu" for others.
        match: Whether a model with another number of parameters than the first gets another size,
            instead of being refused. Default False.
    """

    name: str = setting(dataclasses.MISSING, require_directory_name)
    recipe: str = setting(dataclasses.MISSING, require_text)
    models: Mapping[str, Mapping[str, Any]] = setting(dataclasses.MISSING, _require_models)
    settings: Mapping[str, Any] = setting({}, require_mapping)
    budget: Budget = setting({}, _require_budget)  # noqa: RUF009 (a field)
    seeds: tuple[int, ...] = setting((1, 2, 3), _require_seeds)
    quality: str | None = setting(
        None, or_null(registered("keras_transformer.metrics:TEXT_METRICS", "loss"))
    )
    match: bool = setting(False, require_boolean)

    def __post_init__(self) -> None:
        values, mistakes = check_fields(type(self), vars(self))
        if mistakes:
            raise RecipeError(mistakes, origin="The comparison")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def to_dictionary(self) -> dict[str, Any]:
        """Returns all fields as types that JSON and YAML have."""
        values = {name: plain(value) for name, value in vars(self).items()}
        return {**values, "budget": self.budget.to_dictionary()}

    def recipe_of(self, model: str, overrides: Iterable[str | Override] = ()) -> Recipe:
        """Returns the `Recipe` of a model, with further overrides such as "seed=2"."""
        changes = {
            key if "." in key else f"model.{key}": value
            for key, value in self.models[model].items()
        }
        replaced = {"model": {}} if "model.kind" in changes else {}
        place = f"The model {model!r} of {self.name}"
        settings = [
            Override(key, value, f"{place}: {key}={value}")
            for key, value in {**replaced, **self.settings, **changes}.items()
        ]
        try:
            return load_recipe(self.recipe, [*_FOR_ALL, *settings, *overrides])
        except RecipeError as error:
            raise RecipeError(error.mistakes, origin=place) from error

    def recipes(self) -> dict[str, Recipe]:
        """Returns the `Recipe` of each model by name, with the recipe's own seed and length.

        If one of them cannot be used, or has other data than the first, a `UserError` is raised.
        """
        recipes = {name: self.recipe_of(name) for name in self.models}
        first = next(iter(recipes))
        for name, section in itertools.product(recipes, SHARED_SECTIONS):
            if getattr(recipes[name], section) != getattr(recipes[first], section):
                raise UserError(
                    f"The models {first!r} and {name!r} of {self.name} must have the same "
                    f"`{section}`, because models are compared on the same data.",
                    fix="Set it for all models, in `settings` or with --set.",
                )
        return recipes

    def chosen_quality(self, recipe: Recipe) -> str:
        """Returns the name of the metric that is reported in addition to the loss."""
        if recipe.task != "translation":
            return "loss"
        return self.quality or ("exact_match" if recipe.data.builtin else "bleu")


# Fields that a file must have, with the advice if one is missing.
_REQUIRED = {
    "name": "Give the comparison a name, such as recall.",
    "recipe": "Name the recipe that all models share, such as quickstart.",
    "models": "Name the models, each with its changes, such as `rotary: {attention: rotary}`.",
}


def built_in_variants(task: str) -> dict[str, dict[str, Any]]:
    """Returns the built-in variants of a task by name, each as changes in a recipe's `model`.

    "transformer" is the recipe's own model. The other variants are all registered position
    encodings, attention mechanisms, and kinds of models.
    """
    from keras_transformer.layers.attention import MECHANISMS
    from keras_transformer.layers.positions import POSITION_ENCODINGS
    from keras_transformer.trainer.config import DEFAULT_KIND, config_classes

    variants: dict[str, dict[str, Any]] = {"transformer": {}}
    variants |= {name: {"positions": name} for name in POSITION_ENCODINGS}
    for name, mechanism in MECHANISMS.items():
        variants[name] = {"attention": name}
        if not mechanism.supports_causal:  # for encoders only
            variants[name]["decoder_attention"] = "scaled_dot_product"
    others = [kind for kind in config_classes(task) if kind != DEFAULT_KIND]
    return variants | {kind: {"kind": kind, "size": "tiny"} for kind in others}


def load_comparison(
    path_or_name: str | os.PathLike[str],
    *,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    tokens: int | None = None,
    seconds: float | None = None,
    overrides: Iterable[str] = (),
    match: bool = False,
) -> Comparison:
    """Returns the comparison in a file, or a comparison of a recipe with built-in variants.

    Args:
        path_or_name: Path of a comparison or a recipe, or the name of a recipe of the package.
        models: Names of models in the file or of built-in variants. Default: all of the file.
        seeds: Seeds. Default: those of the file.
        tokens: Target tokens of the budget. Default: the budget of the file.
        seconds: Seconds of the budget. Default: the budget of the file.
        overrides: Texts such as "training.warmup_steps=100", for all models.
        match: Whether sizes are changed until the numbers of parameters are equal, even if the file
            does not ask for it.

    >>> comparison = load_comparison("quickstart", models=["transformer", "rotary"], seeds=[7])
    >>> comparison.name, comparison.models
    ('dates', {'transformer': {}, 'rotary': {'attention': 'rotary'}})
    """
    file = read_recipe_file(path_or_name)
    if {"models", "recipe"} & set(file.values):
        comparison = _of_file(file, path_or_name)
    else:
        comparison = _of_recipe(path_or_name, models)
    known = {**built_in_variants(load_recipe(comparison.recipe).task), **comparison.models}
    changes: dict[str, Any] = {}
    if models is not None:
        chosen = (require_choice("--models", name, known) for name in models)
        changes["models"] = {name: known[name] for name in chosen}
    if seeds is not None:
        changes["seeds"] = seeds
    if tokens is not None or seconds is not None:
        changes["budget"] = {"tokens": tokens, "seconds": seconds}
    if overrides:
        settings = {key: value for key, value, _ in map(Override.parse, overrides)}
        changes["settings"] = {**comparison.settings, **settings}
    if match:
        changes["match"] = True
    return dataclasses.replace(comparison, **changes)


def _of_recipe(path_or_name: str | os.PathLike[str], models: Sequence[str] | None) -> Comparison:
    recipe = load_recipe(path_or_name)
    if not models:
        raise UserError(
            "this is a recipe, which does not name models to compare.",
            where=path_or_name,
            fix=f"Name them with --models: {', '.join(built_in_variants(recipe.task))}.",
        )
    # The caller replaces the models.
    return Comparison(name=recipe.name, recipe=os.fspath(path_or_name), models={"transformer": {}})


def _of_file(file: RecipeFile, path: str | os.PathLike[str]) -> Comparison:
    mistakes = _unknown_keys("", Comparison, file.values)
    for name, fix in _REQUIRED.items():
        if name not in file.values:
            mistakes.append(UserError("a value is missing.", argument=name, fix=fix))
    mistakes += check_fields(Comparison, file.values)[1]
    if mistakes:
        raise file.located(RecipeError(mistakes, origin="The comparison"))
    comparison = Comparison(**file.values)
    if comparison.recipe in shipped_recipes():
        return comparison
    # The path of the recipe is relative to the comparison.
    recipe = pathlib.Path(path).parent / comparison.recipe
    return dataclasses.replace(comparison, recipe=os.path.normpath(recipe))
