"""`train`: a training from its first step, or its last checkpoint, to the exported model."""

import contextlib
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_transformer.export.versions import require_loadable
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.distribution import Distribution
from keras_transformer.trainer.preparation import PreparedData, prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipes import load_recipe
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_end import finish_training
from keras_transformer.trainer.training_plan import DRY_STEPS
from keras_transformer.trainer.training_result import TrainingResult, read_result
from keras_transformer.trainer.training_run import TrainingJob, TrainingRun


def train(
    recipe: Recipe | Mapping[str, Any] | str | os.PathLike[str],
    run_directory: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    force: bool = False,
    report: TrainingReport | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    parts: TrainingParts | None = None,
) -> TrainingResult | None:
    """Trains a model by a recipe; resumes a run that was interrupted.

    Args:
        recipe: A `Recipe`, a dictionary with its keys, the path of a YAML file, or the name of a
            recipe of the package, such as "quickstart".
        run_directory: Directory of the run, which is created if it does not exist.
        dry_run: Boolean. Whether to build everything, make two steps and keep nothing. Default
            False.
        force: Boolean. Whether to resume a run whose recipe has changed in ways that allow it.
            Default False.
        report: A `TrainingReport` for the user. Default: no output.
        callbacks: List of Keras callbacks. `TrainingRun` describes when they are called.
            Default: none but those of the recipe.
        parts: The `TrainingParts` from which the training is assembled. Default: those of the
            package.

    Returns:
        A `TrainingResult`; None in workers other than the first.

    Raises:
        TrainingStopped: If a stop signal came. Everything is saved.
        TrainingFailed: If a loss is not finite.
        UserError: If the recipe, its files or the run directory cannot be used.
    """
    if isinstance(recipe, Mapping):
        recipe = Recipe.from_dictionary(dict(recipe))
    elif not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    report, parts = report or TrainingReport(), parts or TrainingParts()
    with (
        parts.make_stop_request(report.say) as stop,
        _path_of_run(run_directory, dry_run) as path,
    ):
        with stop.stop_at_once():
            distribution = Distribution(recipe.training.distribution)
        if not distribution.is_chief:
            report = TrainingReport()
        # In a dry run each worker has its own directory.
        run = RunDirectory(path, is_writer=distribution.is_chief or dry_run)
        with distribution.report_lost_workers(), run:
            with stop.stop_at_once():
                prepared = _prepare(recipe, run, distribution, report, force)
                if isinstance(prepared, TrainingResult):
                    report.end(prepared)
                    return prepared
                data = prepared
                if dry_run:
                    texts = data.validation_texts[:DRY_STEPS]
                    data = dataclasses.replace(data, validation_texts=texts, tests={})
                report.stage("Building the model")
                # Here, so that a run without a checkpoint starts with the weights of a new run.
                parts.set_seed(recipe)
                job = TrainingJob(recipe, run, distribution, data, report, stop, parts, dry_run)
                training = TrainingRun(job, callbacks)
            with contextlib.closing(training):
                with stop.stop_at_once():
                    training.resume()
                training.run_steps()
                with stop.stop_at_once():
                    result = finish_training(training)
    if result is not None:
        report.end(result)
    return result


@contextlib.contextmanager
def _path_of_run(run_directory: str | os.PathLike[str], dry_run: bool) -> Iterator[pathlib.Path]:
    """Yields the directory of the run; that of a dry run is removed afterwards."""
    if not dry_run:
        yield pathlib.Path(run_directory)
        return
    with tempfile.TemporaryDirectory(prefix="dry_run_") as directory:
        yield pathlib.Path(directory, "run")


def _prepare(
    recipe: Recipe,
    run: RunDirectory,
    distribution: Distribution,
    report: TrainingReport,
    force: bool,
) -> PreparedData | TrainingResult:
    """Locks the run directory and prepares the data; returns the result if the run is finished."""
    if recipe.export.enabled and recipe.export.to:
        require_loadable(pathlib.Path(recipe.export.to))
    with distribution.chief_first():
        run.lock()
        is_changed = run.require_recipe(recipe, force)
        if run.result.exists() and not is_changed:
            report.say(
                f"{run.path}: this run is finished. To train longer, give --force and more steps "
                "with --set; to train again, another directory with --run."
            )
            return read_result(run.result)
        run.store_recipe(recipe)
        run.store_environment(report.say)
        return prepare_data(recipe, run, report)
