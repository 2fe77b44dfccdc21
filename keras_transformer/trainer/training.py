"""`train`: a training from its first step, or its last checkpoint, to the exported model."""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.types import Path
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export import TrainedModel, export_model, make_text_module
from keras_transformer.export.versions import require_loadable
from keras_transformer.inference import Evaluation, evaluate
from keras_transformer.trainer.building import TrainingParts
from keras_transformer.trainer.checkpoints import (
    WEIGHTS,
    DamagedCheckpointError,
    assign_variables,
    mean_weights,
    moving_averages,
    training_variables,
)
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.distribution import Distribution
from keras_transformer.trainer.preparation import PreparedData, prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipes import load_recipe
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_result import TrainingResult, read_result, result_as_json
from keras_transformer.trainer.training_run import TrainingJob, TrainingRun
from keras_transformer.trainer.training_state import DRY_STEPS, TrainingPlan
from keras_transformer.trainer.translation_quality import TranslationQuality

# Number of texts on which an export is verified.
_EXAMPLES = 4

#: Tuples of source, reference and hypothesis.
Samples = tuple[tuple[str, str, str], ...]


def train(
    recipe: Recipe | Mapping[str, Any] | Path,
    run_directory: Path,
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
        dry_run: Whether to build everything, run two steps and keep nothing. Default False.
        force: Whether to resume a run after allowed changes of its recipe. Default False.
        report: A `TrainingReport` for the user. Default: no output.
        callbacks: Keras callbacks, called as `TrainingRun` describes. Default: those of the recipe.
        parts: The `TrainingParts` that make model and loops. Default: those of the package.

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
    with parts.make_stop_request(report.say) as stop, contextlib.ExitStack() as stack:
        path = pathlib.Path(run_directory)
        if dry_run:
            temporary = tempfile.TemporaryDirectory(prefix="dry_run_")
            path = pathlib.Path(stack.enter_context(temporary), "run")
        with stop.stop_at_once():
            distribution = Distribution(recipe.training.distribution)
        if not distribution.is_chief:
            report = TrainingReport()
        # In a dry run each worker has its own directory.
        run = RunDirectory(path, is_writer=distribution.is_chief or dry_run)
        with distribution.report_lost_workers(), run:
            with stop.stop_at_once():
                if recipe.export.enabled and recipe.export.to:
                    require_loadable(pathlib.Path(recipe.export.to))
                with distribution.chief_first():
                    prepared = _prepare(recipe, run, report, force)
                if isinstance(prepared, TrainingResult):
                    report.end(prepared)
                    return prepared
                if dry_run:
                    texts = prepared.validation_texts[:DRY_STEPS]
                    prepared = dataclasses.replace(prepared, validation_texts=texts, tests={})
                report.stage("Building the model")
                # Seeded here, so that a run restarted without a checkpoint has the same weights.
                parts.set_seed(recipe)
                job = TrainingJob(recipe, run, distribution, prepared, report, stop, parts, dry_run)
                training = TrainingRun(job, callbacks)
            with contextlib.closing(training.loggers):
                with stop.stop_at_once():
                    training.resume()
                training.run_steps()
                with stop.stop_at_once():
                    result = _finish(training)
    if result is not None:
        report.end(result)
    return result


def _prepare(
    recipe: Recipe, run: RunDirectory, report: TrainingReport, force: bool
) -> PreparedData | TrainingResult:
    """Locks the run directory and prepares the data; returns the result if the run is finished."""
    run.lock()
    is_changed = run.require_recipe(recipe, force)
    if run.result.exists() and not is_changed:
        report.say(
            f"{run.path}: this run is finished. To train longer, give --force and more steps with "
            "--set; to train again, another directory with --run."
        )
        return read_result(run.result)
    run.store_recipe(recipe)
    run.store_environment(report.say)
    return prepare_data(recipe, run, report)


def _finish(training: TrainingRun) -> TrainingResult | None:
    """Sets the final weights, evaluates and exports them, and stores the result."""
    start = time.perf_counter()
    job, model = training.job, training.model
    # All workers wait until the first one has saved the last step.
    job.distribution.sum_over_workers(0)
    if not job.is_dry_run:
        _set_final_weights(training)
    # Callbacks see the final weights, and may still change them.
    training.notify("on_train_end")
    validation: dict[str, float] = {}
    if training.validation is not None:
        job.report.busy("Evaluating the final weights")
        validation = training.validation.measure(DRY_STEPS if job.is_dry_run else None)
    if not job.distribution.is_chief:
        return None
    tests: dict[str, Evaluation] = {}
    samples: Samples = ()
    if training.quality is not None:
        if job.recipe.evaluation.sentences and job.data.validation_texts:
            validation |= training.quality.measure()
            samples = training.quality.samples(job.recipe.evaluation.show)
        tests, test_samples = _evaluate_tests(job, training.quality)
        samples = test_samples or samples
    test_metrics = {name: test.metrics for name, test in tests.items()}
    trained = TrainedModel(
        model,
        job.data.tokenizers,
        recipe=job.recipe.to_dictionary(),
        quality={"validation": validation, "tests": test_metrics},
        examples=tuple(texts[0] for texts in job.data.validation_texts[:_EXAMPLES]),
    )
    export = None
    if not job.is_dry_run:
        export = _save_and_export(job, trained)
    elif job.recipe.export.enabled and training.quality is None:
        # Otherwise an evaluation has traced most of an export.
        for function in make_text_module(trained).functions.values():
            function.concrete  # noqa: B018 (the property traces)
    steps = training.loop.steps_done
    planned_steps = TrainingPlan.for_recipe(job.recipe, len(job.data.batches)).total_steps
    call = training.last_call
    result = TrainingResult(
        name=job.recipe.name,
        run_directory=job.directory.path,
        steps=steps,
        epochs=training.plan.epoch(steps),
        seconds=training.state.seconds + time.perf_counter() - start,
        parameters=model.count_params(),
        tensorboard=job.directory.tensorboard,
        validation=validation,
        best=training.state.best,
        best_step=training.state.best_step,
        tests=tests,
        samples=samples,
        export=export,
        stopped_by=training.stopped_by,
        resumed_from=training.resumed_from,
        traces=training.loop.traces,
        tokens_per_second=call and call.tokens / call.seconds,
        planned_steps=planned_steps,
        planned_seconds=call and planned_steps * call.seconds / call.steps,
        is_dry_run=job.is_dry_run,
    )
    job.directory.store_result(result_as_json(result))
    return result


def _set_final_weights(training: TrainingRun) -> None:
    """Sets the weights that the recipe's `checkpoints.final` asks for."""
    job, checkpoints, best_step = training.job, training.checkpoints, training.state.best_step
    section, variables = job.recipe.checkpoints, training_variables(training.model)
    weights = {name: each for name, each in variables.items() if name.startswith(f"{WEIGHTS}/")}
    if section.final == "last":
        return
    job.report.busy("Setting the final weights")
    if section.final == "ema":
        with moving_averages(training.model):
            values = {name: variable.numpy() for name, variable in weights.items()}
    elif section.final == "best" and best_step is not None:
        try:
            values = checkpoints.read(best_step).tensors(f"{WEIGHTS}/")
        except DamagedCheckpointError as error:
            fix = "To use others, give --force and --set checkpoints.final=average or last; to "
            fix += "train again, give another directory with --run."
            raise UserError(f"{error} It held the best weights.", fix=fix) from error
    else:
        undamaged = []
        for step in checkpoints.latest_regular(section.average):
            try:
                undamaged.append(checkpoints.read(step))
            except DamagedCheckpointError as error:
                job.report.say(f"{error} It is left out of the average.")
        values = mean_weights(undamaged)
    assign_variables(weights, values, job.directory.checkpoints)


def _evaluate_tests(
    job: TrainingJob, quality: TranslationQuality
) -> tuple[dict[str, Evaluation], Samples]:
    """Returns the `Evaluation` of each test corpus, and samples of the first one to show."""
    tests: dict[str, Evaluation] = {}
    samples: Samples = ()
    section = job.recipe.evaluation
    for name, pairs in job.data.tests.items():
        job.report.busy(f"Translating {name}")
        sources, references = map(list, zip(*pairs, strict=True))
        tests[name] = evaluate(
            quality.text_model,
            sources,
            references,
            bleu_tokens=section.bleu_tokens,
            metrics=section.metrics,
        )
        if not samples:
            hypotheses = quality.translate(sources[: section.show])
            texts = map(conllu_text, sources)
            samples = tuple(zip(texts, references, hypotheses, strict=False))
    return tests, samples


def _save_and_export(job: TrainingJob, trained: TrainedModel) -> pathlib.Path | None:
    """Saves the model in the run directory and exports it; returns the directory of the export."""
    directory, section = job.directory, job.recipe.export
    job.report.busy("Saving the model")
    shutil.rmtree(directory.model, ignore_errors=True)  # left by an interruption at this point
    with named_file_errors(directory.model):
        trained.save(directory.path)
    if not section.enabled:
        return None
    job.report.busy("Exporting")
    target = pathlib.Path(section.to or directory.export, job.recipe.name)
    with named_file_errors(target):
        return export_model(trained, target, section.format, **section.settings())
