"""The steps of a training run: logs, evaluations, checkpoints, Keras callbacks, interruption."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer.trainer.building import TrainingParts, make_callbacks, make_quality
from keras_transformer.trainer.callbacks import LoggingCallback
from keras_transformer.trainer.checkpoints import (
    Checkpoints,
    assign_variables,
    moving_averages,
    training_variables,
)
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.distribution import Distribution
from keras_transformer.trainer.loggers import LoggerGroup
from keras_transformer.trainer.loggers.logger import TRAIN, VALIDATION
from keras_transformer.trainer.preparation import PreparedData
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.signals import StopRequest, TrainingFailed, TrainingStopped
from keras_transformer.trainer.summary import metric_phrase
from keras_transformer.trainer.training_loop import TrainingLoop, ValidationLoop
from keras_transformer.trainer.training_state import (
    DRY_STEPS,
    TrainingPlan,
    TrainingState,
    TrainingWindow,
)
from keras_transformer.trainer.translation_quality import TranslationQuality


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """Inputs of a training run; a dry run has only `DRY_STEPS` steps."""

    recipe: Recipe
    directory: RunDirectory
    distribution: Distribution
    data: PreparedData
    report: TrainingReport
    stop: StopRequest
    parts: TrainingParts
    is_dry_run: bool = False


class CallTiming(NamedTuple):
    """Steps, target tokens and seconds of a call of the compiled loop."""

    steps: int
    tokens: float
    seconds: float


class TrainingRun:
    """A training run: model, loops, checkpoints, logs and callbacks of a job.

    Keras callbacks are called by the first worker only, as `model.fit` calls them:

    - Like `model.fit` with `steps_per_execution`, the compiled loop runs several steps in one call,
      for about half a second or until a point of the training curves (`tensorboard.every`), an
      evaluation, a checkpoint or the end of an epoch. `on_train_batch_begin` gets the index of
      its first step in the epoch. `on_train_batch_end` gets the index of its last step, the means
      over the epoch so far, and the "tokens_per_second" of the call.
    - `on_test_begin` and `on_test_end` surround an evaluation, which is one call without batches.
    - `on_epoch_end` gets the means over the epoch, and with the prefix "val_" the metrics of the
      last evaluation in it, if there was one. A run that is resumed calls `on_epoch_begin` again
      for the epoch in which it was interrupted. An incomplete last epoch ends with the training.
    - `model.stop_training = True` ends the training after the current call.

    Args:
        job: The recipe, directory, data and other inputs of the run.
        callbacks: Keras callbacks in addition to those of the recipe.
    """

    def __init__(
        self, job: TrainingJob, callbacks: Sequence[keras.callbacks.Callback] = ()
    ) -> None:
        self.job = job
        recipe, directory, data = job.recipe, job.directory, job.data
        max_steps = DRY_STEPS if job.is_dry_run else None
        self.plan: TrainingPlan = TrainingPlan.for_recipe(recipe, len(data.batches), max_steps)
        self.validation: ValidationLoop | None = None
        # In this scope, all workers create the same variables together, and wait for each other.
        with job.distribution.scope():
            self.model: keras.Model = job.parts.make_model(recipe, data.tokenizers)
            self.loop: TrainingLoop = job.parts.make_training_loop(
                recipe, self.model, data.batches, self.plan.total_steps
            )
            if (batches := data.validation_batches) is not None:
                self.validation = job.parts.make_validation_loop(self.model, batches)
        self.quality: TranslationQuality | None = None
        self.callbacks: list[keras.callbacks.Callback] = []
        self.loggers: LoggerGroup = LoggerGroup((), directory.path)
        if job.distribution.is_chief:
            path, names = directory.path, recipe.training.loggers
            self.loggers = LoggerGroup.for_run(path, path.name, names)
            self.quality = make_quality(recipe, data, self.model)
            own = make_callbacks(recipe, directory, data, self.quality, self.loggers)
            self.callbacks = [*own, *callbacks]
        epochs = math.ceil(self.plan.epoch(self.plan.total_steps))
        parameters = {"epochs": epochs, "steps": math.ceil(self.plan.epoch_steps), "verbose": 0}
        for callback in self.callbacks:
            callback.set_params(parameters)
            callback.set_model(self.model)
            if isinstance(callback, LoggingCallback):
                callback.count_steps = lambda: self.loop.steps_done
        self.checkpoints: Checkpoints = Checkpoints(
            directory.checkpoints, recipe.checkpoints.keep, job.distribution.is_chief
        )
        self.state: TrainingState = TrainingState()
        #: Step from which the run was resumed, or None.
        self.resumed_from: int | None = None
        #: Timing of the last call of the loop; None if it included tracing.
        self.last_call: CallTiming | None = None
        self._epoch = 0
        self._is_in_epoch = False
        self._is_stopped = False
        # Since the last point of the training curves.
        self._tokens = self._seconds = 0.0

    def resume(self) -> None:
        """Restores the last undamaged checkpoint, if there is one."""
        job = self.job
        checkpoint = self.checkpoints.newest(job.report.say)
        step = checkpoint.step if checkpoint else 0
        if job.distribution.sum_over_workers(step) != step * job.distribution.workers:
            fix = "The run directory must be on a file system that all workers share."
            problem = "the workers do not see the same checkpoints."
            raise UserError(problem, where=job.directory.checkpoints, fix=fix)
        log_sizes: dict[str, int] = {}
        if checkpoint:
            for name, fingerprint in job.data.fingerprints().items():
                if checkpoint.state["data"].get(name) != fingerprint:
                    problem = f"made with other {name} batches than the recipe's files give now."
                    fix = "Restore the files, or start a new run in another directory."
                    raise UserError(problem, where=checkpoint.path, fix=fix)
            assign_variables(training_variables(self.model), checkpoint.tensors(), checkpoint.path)
            self.state = TrainingState.from_dictionary(checkpoint.state["training"])
            log_sizes = checkpoint.state["logs"]
            self.resumed_from = step
            best, is_best_used = self.state.best_step, job.recipe.checkpoints.final == "best"
            if is_best_used and best is not None and not self.checkpoints.path(best).exists():
                # The run was started with other final weights.
                lost = f"The weights of step {best:,}, the best so far, were not kept."
                job.report.say(f"{lost} The best of the following evaluations will be used.")
                self.state.best, self.state.best_step = None, None
                self.state.evaluations_since_best = 0
            job.report.say(f"Resuming from step {step:,}.")
        self.loop.resume_from(step)
        self.loggers.truncate(log_sizes, job.report.say)

    def save(self, is_regular: bool = True) -> None:
        """Writes a checkpoint of the current step, regular if every run of the recipe makes it."""
        if not self.job.distribution.is_chief:
            return
        self.job.report.busy("Saving")
        state = {
            "training": dataclasses.asdict(self.state),
            # Read by `Checkpoints`, which keeps the weights of this step.
            "best_step": self.state.best_step,
            "logs": self.loggers.file_sizes(),
            "data": self.job.data.fingerprints(),
        }
        variables = training_variables(self.model)
        tensors = {name: variable.value for name, variable in variables.items()}
        self.checkpoints.save(self.loop.steps_done, tensors, state, is_regular)

    @property
    def stopped_by(self) -> str | None:
        """The cause if training ended early: "early stopping" or "a callback", else None."""
        patience = self.job.recipe.evaluation.patience
        if patience is not None and self.state.evaluations_since_best >= patience:
            return "early stopping"
        return "a callback" if self._is_stopped else None

    @property
    def is_finished(self) -> bool:
        """True if no steps remain."""
        return self.loop.steps_done >= self.plan.total_steps or self.stopped_by is not None

    def run_steps(self) -> None:
        """Runs all remaining steps, and saves a checkpoint after the last one."""
        job, plan = self.job, self.plan
        job.report.begin(self._headline(), self.loop.steps_done, plan.total_steps, plan.epoch_steps)
        self.model.stop_training = False
        self.notify("on_train_begin")
        steps_per_second = 0.0
        while not self.is_finished:
            if job.distribution.sum_over_workers(job.stop.signal is not None):
                self.save(is_regular=False)
                # A worker without a signal of its own ends like those that received one.
                code = job.stop.exit_code or 143
                raise TrainingStopped(self.loop.steps_done, code, job.is_dry_run)
            if not self._is_in_epoch:
                self._is_in_epoch = True
                self._epoch = int(self.plan.epoch(self.loop.steps_done))
                self.notify("on_epoch_begin", self._epoch)
            self.notify("on_train_batch_begin", self._index_in_epoch(self.loop.steps_done + 1))
            start, traces = time.perf_counter(), self.loop.traces
            records = self.loop.run(self._steps_of_call(steps_per_second))
            seconds = time.perf_counter() - start
            steps_per_second = len(records) / seconds
            tokens = sum(record.statistics.tokens for record in records)
            is_traced = self.loop.traces > traces
            self.last_call = None if is_traced else CallTiming(len(records), tokens, seconds)
            for record in records:
                self.state.add(record)
            self.state.seconds += seconds
            self._tokens += tokens
            self._seconds += seconds
            job.report.update(self.loop.steps_done, self._window_logs())
            self._run_events(self.loop.steps_done, tokens / seconds)

    def _steps_of_call(self, steps_per_second: float) -> int:
        done, parts = self.loop.steps_done, self.job.parts
        most = max(1, int(steps_per_second * parts.call_seconds))
        if self.job.distribution.workers > 1:
            most = parts.worker_steps
        return min(self.plan.next_event(done) - done, most)

    def _window_logs(self) -> dict[str, float]:
        rate = self._tokens / self._seconds if self._seconds else 0.0
        return {**self.state.window.logs(), "tokens_per_second": rate}

    def _run_events(self, step: int, tokens_per_second: float) -> None:
        """Runs everything that is due after the last step of a call, which had this speed."""
        logs = {**self.state.epoch_window.logs(), "tokens_per_second": tokens_per_second}
        self.notify("on_train_batch_end", self._index_in_epoch(step), logs)
        if self.plan.logs(step):
            self._log(TRAIN, self._window_logs())
            self.state.window = TrainingWindow()
            self._tokens = self._seconds = 0.0
        is_best = False
        if self.plan.evaluates(step) and self.validation is not None:
            is_best = self._evaluate(self.validation)
        if self.plan.ends_epoch(step) or self._agree_to_stop() or self.is_finished:
            self.notify("on_epoch_end", self._epoch, self.state.epoch_logs())
            self.state.end_epoch()
            self._is_in_epoch = False
            self._agree_to_stop()
        if self.plan.saves(step) or self.is_finished:
            self.save()
        elif is_best and self.job.recipe.checkpoints.final == "best":
            self.save(is_regular=False)

    def _agree_to_stop(self) -> bool:
        """Sets in all workers whether a callback, of the first worker, has stopped training."""
        self._is_stopped = self.job.distribution.sum_over_workers(self.model.stop_training) > 0
        return self._is_stopped

    def _index_in_epoch(self, step: int) -> int:
        return step - self.plan.first_step(self._epoch) - 1

    def _evaluate(self, validation: ValidationLoop) -> bool:
        """Measures the model that would be exported now; returns whether it is the best so far."""
        start = time.perf_counter()
        job, step, metric = self.job, self.loop.steps_done, self.job.recipe.evaluation.metric
        job.report.busy("Evaluating")
        use_averages = job.recipe.checkpoints.final == "ema"
        with moving_averages(self.model) if use_averages else contextlib.nullcontext():
            self.notify("on_test_begin")
            logs = validation.measure(DRY_STEPS if job.is_dry_run else None)
            self.notify("on_test_end", logs)
        if not math.isfinite(logs["loss"]):
            raise TrainingFailed(
                f"The validation loss of step {step} is not finite ({logs['loss']}). Lower the "
                "learning rate, lengthen the warm-up, or clip the gradients."
            )
        # Only the first worker has text metrics; all workers must come to the same conclusion.
        value = logs.get(metric, 0.0) if job.distribution.is_chief else 0.0
        value = job.distribution.sum_over_workers(value)
        is_best = self.state.add_evaluation(step, {**logs, metric: value}, metric)
        self._log(VALIDATION, logs)
        self.state.seconds += time.perf_counter() - start
        figures = ", ".join(metric_phrase(name, value) for name, value in logs.items())
        job.report.say(f"Step {step:,}: validation {figures}")
        return is_best

    def notify(self, method: str, *arguments: Any) -> None:
        """Calls a method of each Keras callback."""
        with named_file_errors(self.job.directory.tensorboard):
            for callback in self.callbacks:
                getattr(callback, method)(*arguments)

    def _log(self, split: str, metrics: dict[str, float]) -> None:
        step = self.loop.steps_done
        self.loggers.log_metrics(split, step, metrics, self.plan.epoch(step))

    def _headline(self) -> str:
        recipe = self.job.recipe
        return (
            f"{self.job.distribution.describe()}, {recipe.training.precision}, "
            f"{self.model.count_params():,} parameters, {self.plan.epoch_batches:,} batches per "
            f"epoch of up to {recipe.batches.tokens:,} tokens, "
            f"{self.job.data.batches.report().efficiency:.0%} full"
        )
