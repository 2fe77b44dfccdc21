"""Results of a comparison: means and standard deviations over the seeds."""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Self

from keras_transformer.analysis.compare.comparison import Comparison
from keras_transformer.analysis.compare.planning import Plan
from keras_transformer.analysis.compare.runs import ComparedRun, distance_of_test, read_json
from keras_transformer.data.builtin.recall import TRAINED_DISTANCES
from keras_transformer.trainer.config import Recipe

#: Share of exact matches from which a distance is solved.
SOLVED = 0.9


def longest_solved(exact_matches: Mapping[int, float]) -> int:
    """Returns the greatest distance that is solved together with all shorter ones, or 0.

    A distance that is solved beyond one that is not was solved by chance, or without looking back.

    >>> longest_solved({8: 1.0, 16: 0.93, 32: 0.4, 64: 0.95})
    16
    """
    solved = itertools.takewhile(lambda each: exact_matches[each] >= SOLVED, sorted(exact_matches))
    return max(solved, default=0)


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that was measured once for each seed.

    Attributes:
        values: One value for each run.
        mean: Mean of the values.
        deviation: Standard deviation of the values (n - 1), or None for a single one.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Returns the measure of one or more numbers.

        >>> Measure.of([1.0, 2.0, 3.0]).deviation
        1.0
        """
        known = tuple(values)
        deviation = statistics.stdev(known) if len(known) > 1 else None
        return cls(known, statistics.fmean(known), deviation)

    @classmethod
    def if_known(cls, values: Iterable[float | None]) -> Self | None:
        """Returns the measure of numbers, or None if one of them is unknown."""
        given = list(values)
        known = [value for value in given if value is not None]
        return cls.of(known) if len(known) == len(given) else None


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """Results of one model.

    Attributes:
        model: Name of the model.
        seeds: Seeds of the finished runs.
        parameters: Number of parameters.
        steps: Number of training steps.
        tokens: Number of target tokens in these steps.
        measures: `Measure`s by name, None if something was not measured: "loss" and the quality of
            the comparison on the validation data, "tokens_per_second", "peak_memory_mb", and
            "longest_solved" if test sets have distances.
        tests: `Measure` of the quality for each test set without a distance.
        by_distance: Pairs of a distance and the `Measure` of the quality, in ascending order.
        by_length: Shortest length, longest length and `Measure` of the quality, in ascending order.
        curve: Pairs of target tokens and the `Measure` of the loss during training.
    """

    model: str
    seeds: tuple[int, ...]
    parameters: int
    steps: int
    tokens: float
    measures: dict[str, Measure | None]
    tests: dict[str, Measure]
    by_distance: tuple[tuple[int, Measure], ...]
    by_length: tuple[tuple[int, int, Measure], ...]
    curve: tuple[tuple[float, Measure], ...]


@dataclasses.dataclass(frozen=True)
class Results:
    """A comparison and the results of its models.

    Attributes:
        name: Name of the comparison.
        recipe: The recipe that all models share.
        budget: `Budget.to_dictionary()`.
        seeds: Seeds of the comparison.
        quality: Name of the metric that is reported beside the loss.
        trained_distance: Greatest distance in training, or None if it is unknown.
        models: Results of each model with a finished run, in the order of the comparison.
        missing: Model and seed of each run that failed.
    """

    name: str
    recipe: str
    budget: dict[str, float | None]
    seeds: tuple[int, ...]
    quality: str
    trained_distance: int | None
    models: tuple[ModelResult, ...]
    missing: tuple[tuple[str, int], ...]

    def to_dictionary(self) -> dict[str, Any]:
        """Returns all fields in the types of JSON."""
        return dataclasses.asdict(self)


def collect_results(
    comparison: Comparison, recipe: Recipe, plan: Plan, output: str | os.PathLike[str]
) -> Results:
    """Returns the results of the finished runs; `recipe` is that of the first model."""
    quality = comparison.chosen_quality(recipe)
    models, missing = [], []
    for model in comparison.models:
        runs = {seed: ComparedRun.of(output, model, seed) for seed in comparison.seeds}
        finished = {seed: run for seed, run in runs.items() if run.is_finished}
        missing += [(model, seed) for seed in runs if seed not in finished]
        if finished:
            models.append(_model_result(model, finished, quality, plan["tokens_per_step"]))
    return Results(
        name=comparison.name,
        recipe=comparison.recipe,
        budget=comparison.budget.to_dictionary(),
        seeds=comparison.seeds,
        quality=quality,
        trained_distance=TRAINED_DISTANCES[1] if recipe.data.builtin == "recall" else None,
        models=tuple(models),
        missing=tuple(missing),
    )


def _model_result(
    model: str, runs: Mapping[int, ComparedRun], quality: str, tokens_per_step: float
) -> ModelResult:
    measured = [read_json(run.measured) for run in runs.values()]
    first = measured[0]
    measures = {
        name: Measure.if_known(each["validation"].get(name) for each in measured)
        for name in ("loss", quality)
    }
    for name in ("tokens_per_second", "peak_memory_mb"):
        measures[name] = Measure.if_known(each[name] for each in measured)
    metric = "exact_match" if quality == "loss" else quality
    tests = {
        name: Measure.of(each["tests"][name][metric] for each in measured)
        for name in first["tests"]
    }
    names = {distance_of_test(name): name for name in tests}
    distances = sorted(distance for distance in names if distance is not None)
    if distances:
        measures["longest_solved"] = Measure.of(
            longest_solved({d: each["tests"][names[d]]["exact_match"] for d in distances})
            for each in measured
        )
    by_distance = tuple((distance, tests.pop(names[distance])) for distance in distances)
    by_length = tuple(
        (groups[0]["least"], groups[0]["most"], Measure.of(each[metric] for each in groups))
        for groups in zip(*(each["by_length"] for each in measured), strict=True)
    )
    curves = [dict(run.curve()) for run in runs.values()]
    curve = tuple(
        (step * tokens_per_step, Measure.of(each[step] for each in curves))
        for step in curves[0]
        if all(step in each for each in curves)
    )
    return ModelResult(
        model=model,
        seeds=tuple(runs),
        parameters=first["parameters"],
        steps=first["steps"],
        tokens=first["steps"] * tokens_per_step,
        measures=measures,
        tests=tests,
        by_distance=by_distance,
        by_length=by_length,
        curve=curve,
    )
