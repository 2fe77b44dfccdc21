"""A training from its first update, or from its last checkpoint, to the exported model."""

import contextlib
import dataclasses
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.export.versions import require_loadable
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.distribution import Distribution
from keras_transformer.trainer.preparation import prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipes import load_recipe
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.signals import StopRequest
from keras_transformer.trainer.tensorboard import close_all
from keras_transformer.trainer.training_end import TrainingEnd
from keras_transformer.trainer.training_plan import DRY_UPDATES
from keras_transformer.trainer.training_result import read_result
from keras_transformer.trainer.training_run import TrainingRun


def train(recipe, run_directory, *, dry_run=False, force=False, report=None, callbacks=()):
    """Trains a model as a recipe says; goes on if the run was begun already.

    Args:
        recipe: a `Recipe`, the path of one, or the name of one that comes with the package.
        run_directory: of the run; it is made if it is not there.
        dry_run: whether to build everything, make two updates and keep nothing.
        force: whether a run goes on although the recipe has changed where that can be done.
        report: a `TrainingReport`; by default nothing is said.
        callbacks: Keras callbacks beside those of TensorBoard; they see epochs, evaluations, and
            of the updates those after which the curves get a point.

    Returns:
        A `TrainingResult`; None in workers other than the first.

    Raises:
        TrainingStopped: if a signal came; everything is saved.
        TrainingFailed: if a loss is not finite.
        UserError: if the recipe, the files or the run's directory cannot be used.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    report = report or TrainingReport()
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest(answer=report.say))
        if dry_run:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="dry_run_"))
            run_directory = pathlib.Path(directory, "run")
        with stop.stop_at_once():
            _make_deterministic(recipe)
            distribution = Distribution(recipe.training.distribution)
            stack.enter_context(distribution.lost_workers_told())
            if not distribution.is_chief:
                report = TrainingReport()
            if recipe.export.enabled and recipe.export.to:
                require_loadable(recipe.export.to)
            # In a dry run each worker has a directory of its own.
            run = RunDirectory(run_directory, is_writer=distribution.is_chief or dry_run)
            with distribution.chief_first():
                stack.enter_context(run.locked())
                is_changed = run.require_recipe(recipe, force)
                if run.result.exists() and not is_changed:
                    result = read_result(run.result)
                    report.say(
                        f"{run.path}: this run is finished. To train on, give --force and more "
                        "updates with --set; to train again, another directory with --run."
                    )
                    report.end(result)
                    return result
                run.store_recipe(recipe)
                run.note_environment(report.say)
                data = prepare_data(recipe, run, report)
            if dry_run:
                data = dataclasses.replace(
                    data, validation_texts=data.validation_texts[:DRY_UPDATES], tests={}
                )
            stack.callback(close_all)
            report.stage("Building the model")
            _make_deterministic(recipe)  # again: a run that goes on may have drawn numbers before
            training = TrainingRun(
                recipe, run, distribution, data, report, stop, callbacks, is_dry_run=dry_run
            )
            training.resume()
        training.run_updates()
        with stop.stop_at_once():
            result = TrainingEnd(training).reach()
    if result is not None:
        report.end(result)
    return result


def _make_deterministic(recipe):
    """The same recipe gives the same numbers, on the same machine."""
    seed = int(np.random.SeedSequence(recipe.seed).generate_state(1)[0])
    keras.utils.set_random_seed(seed)
    if recipe.training.deterministic:
        tf.config.experimental.enable_op_determinism()
