"""Plans of comparisons: the size of each model and its number of training steps."""

import dataclasses
import functools
import gc
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare.comparison import Comparison
from keras_transformer.data import Batches
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.preparation import Corpora, PreparedData, prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_state import TrainingPlan

#: Maximum relative difference of a number of parameters from that of the first model.
TOLERANCE = 0.1


class PlannedModel(TypedDict):
    """Plan of one model."""

    recipe: dict[str, Any]  #: the recipe without overrides, by which the plan is recognized
    overrides: list[str]  #: the matched size, such as ["model.hidden_dim=96"], or nothing
    parameters: int  #: number of parameters
    size_key: str  #: key of the recipe that changes the number of parameters
    steps: int  #: number of training steps


class Plan(TypedDict):
    """Plan of a comparison, in the types of JSON."""

    budget: dict[str, float | None]  #: `Budget.to_dictionary()`
    match: bool  #: whether sizes are matched
    data: dict[str, Any]  #: fingerprints of the corpora
    tokens_per_step: float  #: target tokens of a step, padding not counted
    models: dict[str, PlannedModel]  #: plan of each model by name


def is_alike(parameters: int, reference: int) -> bool:
    """Returns whether a number of parameters is close to another."""
    return abs(parameters - reference) <= TOLERANCE * reference


def require_alike(models: Mapping[str, PlannedModel], is_matched: bool = False) -> None:
    """Raises a `UserError` unless all models have nearly as many parameters as the first.

    Args:
        models: The plans by name.
        is_matched: Whether sizes have been matched already.
    """
    sizes = {name: entry["parameters"] for name, entry in models.items()}
    first, reference = next(iter(sizes.items()))
    others = {name: size for name, size in sizes.items() if not is_alike(size, reference)}
    if not others:
        return
    listed = (f"{name!r} has {n:,} ({n / reference - 1:+.0%})" for name, n in others.items())
    keys = dict.fromkeys(f"`{models[name]['size_key']}`" for name in others)
    fix = f"Change {', '.join(keys)}, or use --match."
    if is_matched:
        fix = (
            "No size of the model is closer, because most of its parameters are elsewhere, such as "
            "in tables with `model.max_length` rows. Change that, or the mechanism's options."
        )
    raise UserError(
        f"All models must have as many parameters as the first one, within {TOLERANCE:.0%}: "
        f"{first!r} has {reference:,}; {'; '.join(listed)}.",
        fix=fix,
    )


def match_dim(count: Callable[[int], int], reference: int, start: int, multiple: int) -> int:
    """Returns the multiple of `multiple` whose count, which grows, is closest to `reference`."""
    parameters = functools.cache(lambda number: count(number * multiple))
    low, high = 1, max(1, start // multiple)
    while parameters(high) < reference:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if parameters(middle) >= reference else (middle, high)
    return multiple * min((low, high), key=lambda number: abs(parameters(number) - reference))


# The first steps trace the model and are slow. Then speed is measured for a while.
_FIRST_STEPS, _STEPS_AT_ONCE, _TRIAL_SECONDS = 5, 5, 5.0
# Number of steps for the schedule of a trial, of which nothing is kept.
_FAR_END = 1_000_000


def data_fingerprints(recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Returns the fingerprints of the shared corpora by name; none for built-in corpora."""
    data = next(iter(recipes.values())).data
    return {} if data.builtin else Corpora.of(data).fingerprints()


def stored_models(
    comparison: Comparison,
    recipes: Mapping[str, Recipe],
    fingerprints: Mapping[str, Any],
    plan: Plan | None,
) -> dict[str, PlannedModel]:
    """Returns the models of a stored plan that have not changed.

    Models that are not compared now are kept, because they may be compared later.
    """
    current = comparison.budget.to_dictionary(), comparison.match, fingerprints
    if plan is None or (plan["budget"], plan["match"], plan["data"]) != current:
        return {}
    return {
        name: entry
        for name, entry in plan["models"].items()
        if name not in recipes or entry["recipe"] == recipes[name].to_dictionary()
    }


def unplanned_models(
    comparison: Comparison, models: Mapping[str, PlannedModel]
) -> Iterator[tuple[str, int | None]]:
    """Yields each model that has to be planned and the number of parameters of the first model.

    The caller adds the model to `models` before it continues. The number is None for the first one.
    """
    reference = None
    for name in comparison.models:
        is_planned = name in models
        if is_planned and comparison.match:
            # The first model may have been another one when sizes were matched.
            size, overrides = models[name]["parameters"], models[name]["overrides"]
            is_planned = is_alike(size, reference) if reference else not overrides
        if not is_planned:
            yield name, reference
        reference = reference or models[name]["parameters"]


def make_plan(
    comparison: Comparison, stored: Plan | None = None, report: Callable[[str], object] = print
) -> Plan:
    """Builds each model once and returns the plan.

    Entries of a stored plan are kept for models that have not changed, so that a comparison that is
    resumed or extended has the same numbers.
    """
    recipes = comparison.recipes()
    fingerprints = data_fingerprints(recipes)
    with tempfile.TemporaryDirectory(prefix="plan_") as directory:
        report("Preparing the data")
        first = next(iter(recipes.values()))
        with RunDirectory(pathlib.Path(directory, "run")).lock() as run:
            data = prepare_data(first, run, TrainingReport())
        planner = _Planner(comparison, data, _tokens_per_step(first, data.batches), report)
        models = stored_models(comparison, recipes, fingerprints, stored)
        for name, reference in unplanned_models(comparison, models):
            models[name] = planner.plan_model(name, recipes[name], reference)
    return {
        "budget": comparison.budget.to_dictionary(),
        "match": comparison.match,
        "data": fingerprints,
        "tokens_per_step": planner.tokens_per_step,
        "models": models,
    }


@dataclasses.dataclass
class _Planner:
    comparison: Comparison
    data: PreparedData
    tokens_per_step: float
    report: Callable[[str], object]

    def plan_model(self, name: str, recipe: Recipe, reference: int | None) -> PlannedModel:
        self.report(f"Building {name}")
        settings = recipe.model.settings
        field, multiple = "intermediate_dim", 8
        if field not in settings:
            field, multiple = "hidden_dim", 2 * settings.get("num_heads", 4)
        parameters, matched, overrides = self._count(recipe), recipe, []
        if self.comparison.match and reference and not is_alike(parameters, reference):
            self.report(f"Matching the size of {name}")

            def resized(dim: int) -> Recipe:
                return self.comparison.recipe_of(name, [f"model.{field}={dim}"])

            dim = match_dim(
                lambda dim: self._count(resized(dim)), reference, settings[field], multiple
            )
            matched, overrides = resized(dim), [f"model.{field}={dim}"]
            parameters = self._count(matched)
        return {
            "recipe": recipe.to_dictionary(),
            "overrides": overrides,
            "parameters": parameters,
            "size_key": f"model.{field}",
            "steps": self._steps(matched),
        }

    def _count(self, recipe: Recipe) -> int:
        gc.collect()  # frees the previous model, whose objects refer to one another
        return TrainingParts().make_model(recipe, self.data.tokenizers).count_params()

    def _steps(self, recipe: Recipe) -> int:
        budget = self.comparison.budget
        if budget.tokens is not None:
            return max(1, round(budget.tokens / self.tokens_per_step))
        if budget.seconds is not None:
            return max(1, round(budget.seconds * self._steps_per_second(recipe)))
        return TrainingPlan.for_recipe(recipe, len(self.data.batches)).total_steps

    def _steps_per_second(self, recipe: Recipe) -> float:
        self.report("Measuring the speed of training")
        parts = TrainingParts()
        model = parts.make_model(recipe, self.data.tokenizers)
        loop = parts.make_training_loop(recipe, model, self.data.batches, _FAR_END)
        loop.run(_FIRST_STEPS)
        steps, start, seconds = 0, time.perf_counter(), 0.0
        while seconds < _TRIAL_SECONDS:
            loop.run(_STEPS_AT_ONCE)
            steps += _STEPS_AT_ONCE
            seconds = time.perf_counter() - start
        return steps / seconds


def _tokens_per_step(recipe: Recipe, batches: Batches) -> float:
    """Returns the mean number of target tokens of a step, with the end token, without padding."""
    report = batches.report()
    if not report.batches:
        raise UserError("The training data has no batches, so there is nothing to compare.")
    columns = batches.cache.sequence_columns.values()
    counts = [column.tokens + len(batches.cache) for column in columns]
    target_share = counts[-1] / sum(counts)
    return report.tokens * target_share / report.batches * recipe.batches.accumulate
