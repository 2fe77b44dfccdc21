"""Runs that are finished, as their directories have kept them, and which belong together."""

import dataclasses
import json
import pathlib

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer import Recipe, TrainingResult, load_recipe
from keras_transformer.trainer.recipes import recipe_difference
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_result import read_result

# Keys of a recipe that change nothing in what a model learns or how it is measured.
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
    """What a training has left.

    Attributes:
        path: of the run's directory.
        recipe: the `Recipe` as resolved.
        result: the `TrainingResult`.
        metrics: the lines of its metrics.jsonl, a tuple of mappings.
    """

    path: pathlib.Path
    recipe: Recipe
    result: TrainingResult
    metrics: tuple

    @property
    def seed(self):
        return self.recipe.seed

    def curve(self, split, metric):
        """Returns the updates and the values of a metric, two lists.

        Args:
            split: "train" or "validation".
            metric: such as "loss". Lines without it are left out.
        """
        points = [
            (line["update"], line[metric])
            for line in self.metrics
            if line["split"] == split and metric in line
        ]
        return [update for update, _ in points], [value for _, value in points]


def read_run(path):
    """Returns the `FinishedRun` of a directory.

    Raises:
        UserError: If it is not the directory of a run that translates, or the run is not finished.
    """
    directory = RunDirectory(path)
    if not directory.recipe_file.is_file():
        raise UserError(
            f"{path}: is not the directory of a run: it has no {directory.recipe_file.name}. Give "
            "what `keras-transformer train … --run` was given."
        )
    if not directory.result.is_file():
        raise UserError(
            f"{path}: is not finished: it has no {directory.result.name}. The `keras-transformer "
            "train` that began it goes on with it."
        )
    recipe = load_recipe(directory.recipe_file)
    if recipe.task != "translation":
        raise UserError(
            f"{path}: is a run of the task {recipe.task}. Give runs of the task translation."
        )
    result = read_result(directory.result)
    return FinishedRun(directory.path, recipe, result, tuple(_read_metrics(directory.metrics)))


def _read_metrics(path):
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}. Copy the whole directory of the run."
        ) from error
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise UserError(
                f"{path}:{number}: damaged ({error}). Copy it once more from where the run was "
                "trained, or train again."
            ) from error


def group_by_recipe(runs):
    """Returns a mapping from names to lists of runs that differ in the seed alone.

    The first run's recipe goes by its own name, and each other one by what it has changed in it.

    Args:
        runs: `FinishedRun`s.

    Raises:
        UserError: If two runs have the same recipe and seed: they are one run, counted twice. Or if
            two cannot have the same test set.
    """
    groups = {}
    for run in runs:
        _require_same_texts(runs[0], run)
        group = groups.setdefault(_describe_changes(runs[0].recipe, run.recipe), [])
        for other in group:
            if other.seed == run.seed:
                raise UserError(
                    f"{other.path} and {run.path}: are of the same recipe and the same seed, "
                    f"{run.seed}. Give each run once, and train others with --set seed=…"
                )
        group.append(run)
    return groups


def _require_same_texts(first, run):
    """Raises a `UserError` for runs of texts of two kinds, such as raw ones and tokens."""
    kinds = [each.recipe.evaluation.bleu_tokens for each in (first, run)]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"{first.path} and {run.path}: count {kinds[0]} and {kinds[1]} for BLEU "
            "(`evaluation.bleu_tokens`), so their texts are of two kinds. Make a page of each."
        )
    if len(run.recipe.data.train) == 2 and run.recipe.data.train == first.recipe.data.train[::-1]:
        raise UserError(
            f"{first.path} and {run.path}: translate in opposite directions. Make a page of each."
        )


def _describe_changes(first, recipe):
    changes = [
        f"{key}={json.dumps(new, ensure_ascii=False)}"
        for key, _, new in recipe_difference(first, recipe)
        if not key.startswith(_WITHOUT_EFFECT)
    ]
    return ", ".join(changes) or first.name
