"""From a file, or a recipe and names of models, to a comparison."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping

from keras_transformer._utils.checks import (
    require_boolean,
    require_choice,
    require_mapping,
    require_positive,
    require_positive_integer,
    require_seed,
    require_text,
)
from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.config import (
    Section,
    check_fields,
    or_null,
    plain,
    require_directory_name,
    setting,
)
from keras_transformer.trainer.recipe_file import RecipeError, parse_override, unknown_key
from keras_transformer.trainer.recipes import load_recipe, read_given, shipped_recipes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget(Section):
    """What every model may use; without either, it is the recipe's `steps` or `epochs`.

    All models see the same batches, so that the same number of updates is the same tokens.

    Attributes:
        tokens: target tokens, padding left out. They become a whole number of updates, the same for
            all models.
        seconds: of training, without evaluations. How many updates a model makes in that time is
            measured first, in a short trial, so that its schedule knows where it ends.
    """

    key = "budget"

    tokens: int | None = setting(None, or_null(require_positive_integer))
    seconds: float | None = setting(None, or_null(require_positive))

    def disagreements(self):
        if self.tokens is not None and self.seconds is not None:
            yield (
                "`budget.tokens` and `budget.seconds` exclude each other: got "
                f"{self.tokens} and {self.seconds}. Leave one of them out."
            )


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


def built_in_variants(task):
    """Returns what each name changes in the `model` section of any recipe.

    "transformer" is the recipe's own model. Each registered scheme of positions and each registered
    attention mechanism is a variant by its name, and so is each other kind of model.

    >>> variants = built_in_variants("translation")
    >>> variants["transformer"], variants["learned"], variants["rotary"]
    ({}, {'positions': 'learned'}, {'attention': 'rotary'})

    Args:
        task: of the recipe.
    """
    from keras_transformer.layers.attention import MECHANISMS
    from keras_transformer.layers.positions import SCHEMES
    from keras_transformer.trainer.config import DEFAULT_KIND, config_classes

    variants = {"transformer": {}}
    variants |= {name: {"positions": name} for name in SCHEMES}
    for name, mechanism in MECHANISMS.items():
        variants[name] = {"attention": name}
        if not mechanism.supports_causal:  # it is for encoders
            variants[name]["decoder_attention"] = "scaled_dot_product"
    others = [kind for kind in config_classes(task) if kind != DEFAULT_KIND]
    return variants | {kind: {"kind": kind, "preset": "tiny"} for kind in others}


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
