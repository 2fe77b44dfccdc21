"""Finished runs, read from their directories and grouped by recipe."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer import Recipe, TrainingResult, load_recipe
from keras_transformer.trainer.recipes import recipe_difference
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_result import read_result

# Keys of a recipe that affect neither the trained model nor its evaluation.
_WITHOUT_EFFECT = (
    "seed",
    "name",
    "data.cache",
    "data.test",
    "evaluation.show",
    "tensorboard.",
    "export.",
)


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A finished training.

    Attributes:
        path: Run directory.
        recipe: The `Recipe`, as resolved.
        result: The `TrainingResult`.
        metrics: Lines of metrics.jsonl.
    """

    path: pathlib.Path
    recipe: Recipe
    result: TrainingResult
    metrics: tuple[dict[str, Any], ...]

    @property
    def seed(self) -> int:
        """Seed of the recipe."""
        return self.recipe.seed

    def curve(self, split: str, metric: str) -> tuple[list[int], list[float]]:
        """Returns the steps and the values of a metric.

        Args:
            split: "train" or "validation".
            metric: Name of a metric, such as "loss". Lines without it are left out.
        """
        points = [
            (line["step"], line[metric])
            for line in self.metrics
            if line["split"] == split and metric in line
        ]
        return [step for step, _ in points], [value for _, value in points]


def read_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Returns the finished translation run in a directory; any other directory is a `UserError`."""
    directory = RunDirectory(path)
    if not directory.recipe_file.is_file():
        raise UserError(
            f"expected a run directory; {directory.recipe_file.name} is missing.",
            where=path,
            fix="Give the directory of `keras-transformer train … --run`.",
        )
    if not directory.result.is_file():
        raise UserError(
            f"expected a finished run; {directory.result.name} is missing.",
            where=path,
            fix="Resume it with the same `keras-transformer train` command.",
        )
    directory.check()
    recipe = load_recipe(directory.recipe_file)
    if recipe.task != "translation":
        raise UserError(f"expected the task translation; got {recipe.task}.", where=path)
    result = read_result(directory.result)
    metrics = tuple(_read_metrics(directory.path / "metrics.jsonl"))
    return FinishedRun(directory.path, recipe, result, metrics)


def _read_metrics(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(
            f"cannot be read ({error.strerror}).",
            where=path,
            fix="Copy the whole run directory.",
        ) from error
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise UserError(
                f"damaged ({error}).",
                where=f"{path}:{number}",
                fix="Copy the file again from the machine of the training, or train again.",
            ) from error


def group_by_recipe(runs: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """Returns groups of runs that differ in the seed only, by name.

    The group of the first run has the name of its recipe; every other group is named after the keys
    in which its recipe differs.

    Raises:
        UserError: If two runs have the same recipe and seed, or cannot have the same test set.
    """
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        _require_same_texts(runs[0], run)
        group = groups.setdefault(_describe_changes(runs[0].recipe, run.recipe), [])
        for other in group:
            if other.seed == run.seed:
                raise UserError(
                    f"{other.path} and {run.path} have the same recipe and the same seed, "
                    f"{run.seed}.",
                    fix="Give each run once, and train others with --set seed=…",
                )
        group.append(run)
    return groups


def _require_same_texts(first: FinishedRun, run: FinishedRun) -> None:
    """Raises a `UserError` if the texts of two runs differ, such as raw and tokenized ones."""
    kinds = [each.recipe.evaluation.bleu_tokens for each in (first, run)]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"{first.path} and {run.path} have different `evaluation.bleu_tokens`, {kinds[0]} and "
            f"{kinds[1]}, so their texts differ.",
            fix="Make a page for each.",
        )
    if len(run.recipe.data.train) == 2 and run.recipe.data.train == first.recipe.data.train[::-1]:
        raise UserError(
            f"{first.path} and {run.path} translate in opposite directions.",
            fix="Make a page for each.",
        )


def _describe_changes(first: Recipe, recipe: Recipe) -> str:
    changes = [
        f"{key}={json.dumps(new, ensure_ascii=False)}"
        for key, _, new in recipe_difference(first, recipe)
        if not key.startswith(_WITHOUT_EFFECT)
    ]
    return ", ".join(changes) or first.name
