"""The updates of a training, and what is due after them: logs, evaluations, checkpoints."""

import contextlib
import time

import numpy as np

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer.trainer.checkpoints import (
    Checkpoints,
    assign_variables,
    moving_averages,
    training_variables,
)
from keras_transformer.trainer.metrics_log import GrowingLogs
from keras_transformer.trainer.preparation import (
    make_callbacks,
    make_loop,
    make_model,
    make_quality,
)
from keras_transformer.trainer.signals import TrainingFailed, TrainingStopped
from keras_transformer.trainer.summary import metric_phrase
from keras_transformer.trainer.tensorboard import ProfileSteps, flush_all
from keras_transformer.trainer.training_loop import TrainingWindow, ValidationLoop
from keras_transformer.trainer.training_plan import DRY_UPDATES, TrainingPlan

# A stop is heeded between two calls of the compiled loop: a call is to take about so long.
_CALL_SECONDS = 0.5
# Workers have clocks of their own and must all make the same number of updates in a call.
_CALL_UPDATES_OF_WORKERS = 10


class TrainingRun:
    """One training: model, loops, checkpoints and logs, made from a recipe and its data.

    `train` makes it, calls `resume` and `run_updates`, and gives it to a `TrainingEnd`.
    """

    def __init__(
        self, recipe, run, distribution, data, report, stop, callbacks=(), is_dry_run=False
    ):
        self.recipe, self.run, self.distribution = recipe, run, distribution
        self.data, self.report, self.stop = data, report, stop
        self.is_dry_run = is_dry_run
        self.plan = TrainingPlan.of(
            recipe, len(data.batches), most=DRY_UPDATES if is_dry_run else None
        )
        # Nothing else is made in the scope: there, all workers must make the same variables
        # together, and what the chief does by itself would wait for the others.
        with distribution.scope():
            self.model = make_model(recipe, data.tokenizers)
            self.loop = make_loop(
                recipe, self.model, data.batches, self.plan.total, self.plan.accumulate
            )
            self.validation = None
            if data.validation_batches is not None:
                self.validation = ValidationLoop(self.model, data.validation_batches)
        self.quality, self.callbacks = None, []
        if distribution.is_chief:
            self.quality = make_quality(recipe, data, self.model)
            self.callbacks = [*make_callbacks(recipe, run, data, self.quality), *callbacks]
        for callback in self.callbacks:
            callback.set_model(self.model)
        self.checkpoints = Checkpoints(
            run.checkpoints, recipe.checkpoints.keep, distribution.is_chief
        )
        self.logs = GrowingLogs(run.metrics, run.tensorboard, flush_all)
        self.window = TrainingWindow()
        self.best, self.best_update, self.evaluations_since_best = None, None, 0
        self.seconds = 0.0
        self.resumed_from = None
        self._tokens_per_second = _Rate()
        #: Updates, tokens and seconds of the last call of the loop, if nothing was traced in it.
        self.last_call = None

    # Going on.

    def resume(self):
        """Takes everything back to the last checkpoint, if there is one."""
        checkpoint = self.checkpoints.newest(self.report.say)
        update = checkpoint.update if checkpoint else 0
        if self.distribution.sum_over_workers(update) != update * self.distribution.workers:
            raise UserError(
                f"{self.run.checkpoints}: the workers do not see the same checkpoints here. The "
                "run's directory must be on a file system that they share."
            )
        state = checkpoint.state if checkpoint else {"logs": {}}
        if checkpoint:
            self._require_same_data(checkpoint)
            assign_variables(training_variables(self.model), checkpoint.tensors(), checkpoint.path)
            self.window = TrainingWindow(state["window"])
            self.best, self.best_update = state["best"], state["best_update"]
            self.evaluations_since_best = state["evaluations_since_best"]
            self._forget_best_if_not_kept()
            self.seconds = state["seconds"]
            self.resumed_from = update
            self.report.say(f"Going on after update {update:,}.")
        self.loop.go_on_after(update)
        if self.distribution.is_chief:
            self.logs.cut_to(state["logs"], self.report.say)

    def _forget_best_if_not_kept(self):
        """The recipe may have asked for other final weights when the best ones were found."""
        is_wanted = self.recipe.checkpoints.final == "best" and self.best_update is not None
        if is_wanted and not self.checkpoints.path(self.best_update).exists():
            self.report.say(
                f"The weights after update {self.best_update:,}, the best so far, were not kept. "
                "The best will be one of those to come."
            )
            self.best, self.best_update, self.evaluations_since_best = None, None, 0

    @property
    def is_stopped_early(self):
        """Whether the evaluations have not become better for as long as the recipe bears it."""
        patience = self.recipe.evaluation.stop_after
        return patience is not None and self.evaluations_since_best >= patience

    def save(self, is_regular=True):
        """Writes a checkpoint of everything, or leaves the one that is there."""
        if not self.distribution.is_chief:
            return
        self.report.busy("Saving")
        variables = training_variables(self.model)
        state = {
            "window": self.window.to_dictionary(),
            "best": self.best,
            "best_update": self.best_update,
            "evaluations_since_best": self.evaluations_since_best,
            "seconds": self.seconds,
            "logs": self.logs.sizes(),
            "data": self._data_fingerprints(),
        }
        tensors = {name: variable.value for name, variable in variables.items()}
        self.checkpoints.save(self.loop.updates_done, tensors, state, is_regular)

    def _require_same_data(self, checkpoint):
        for name, fingerprint in self._data_fingerprints().items():
            if checkpoint.state["data"].get(name) != fingerprint:
                raise UserError(
                    f"{checkpoint.path}: was made with other {name} batches than the recipe's "
                    "files give now. Have they changed? Restore them, or start a new run in "
                    "another directory."
                )

    def _data_fingerprints(self):
        batches = {"training": self.data.batches, "validation": self.data.validation_batches}
        return {name: each.fingerprint() for name, each in batches.items() if each is not None}

    # Training.

    def run_updates(self):
        """Makes all updates that are left; a checkpoint of the last one is there afterwards."""
        self.report.begin(
            self._headline(),
            self.loop.updates_done,
            self.plan.total,
            self.plan.batches / self.plan.accumulate,
        )
        self.tell("on_train_begin")
        self.tell("on_epoch_begin", int(self.plan.epoch(self.loop.updates_done)))
        pace = 0.0
        while self.loop.updates_done < self.plan.total and not self.is_stopped_early:
            self._stop_if_asked()
            start, traces = time.perf_counter(), self.loop.traces
            records = self.loop.run(self._updates_of_call(pace))
            seconds = time.perf_counter() - start
            pace = len(records) / seconds
            self._take_in(records, seconds, is_traced=self.loop.traces > traces)
            self._do_what_is_due(self.loop.updates_done)

    def _stop_if_asked(self):
        asked = self.distribution.sum_over_workers(0 if self.stop.signal is None else 1)
        if asked:
            self.save(is_regular=False)
            # A worker that was not asked itself ends as those that were.
            raise TrainingStopped(
                self.loop.updates_done, self.stop.exit_code or 143, self.is_dry_run
            )

    def _updates_of_call(self, pace):
        done = self.loop.updates_done
        most = max(1, int(pace * _CALL_SECONDS))
        if self.distribution.workers > 1:
            most = _CALL_UPDATES_OF_WORKERS
        return min(self.plan.next_event(done) - done, most)

    def _take_in(self, records, seconds, is_traced):
        self.seconds += seconds
        for record in records:
            self.window.add(record)
        tokens = sum(record.statistics.tokens for record in records)
        self.last_call = None if is_traced else (len(records), tokens, seconds)
        self._tokens_per_second.add(tokens, seconds)
        logs = {**self.window.logs(), "tokens_per_second": self._tokens_per_second.value}
        self.report.update(self.loop.updates_done, logs)

    def _do_what_is_due(self, update):
        if self.plan.is_due("profile", update):
            for callback in self.callbacks:
                if isinstance(callback, ProfileSteps):
                    callback.start_or_stop()
        if self.plan.is_due("log", update):
            logs = self.window.logs()
            self._log("train", logs)
            timed = {**logs, "tokens_per_second": self._tokens_per_second.value}
            self.tell("on_train_batch_end", update - 1, timed)
            self.window, self._tokens_per_second = TrainingWindow(), _Rate()
        is_best = False
        if self.plan.is_due("evaluate", update) and self.validation is not None:
            is_best = self._evaluate()
        if self.plan.ends_epoch(update):
            epoch = int(self.plan.epoch(update))
            self.tell("on_epoch_end", epoch - 1, {})
            self.tell("on_epoch_begin", epoch)
        if self.plan.is_due("save", update) or self.is_stopped_early:
            self.save()
        elif is_best and self.recipe.checkpoints.final == "best":
            self.save(is_regular=False)

    def _evaluate(self):
        """Measures the model as it would be exported now; returns whether it is the best so far."""
        start = time.perf_counter()
        logs = self._measure()
        section = self.recipe.evaluation
        # BLEU and chrF are the chief's; all must come to the same conclusion.
        value = logs.get(section.metric, 0.0) if self.distribution.is_chief else 0.0
        value = self.distribution.sum_over_workers(value)
        if not np.isfinite(logs["loss"]):
            raise TrainingFailed(
                f"The validation loss after update {self.loop.updates_done} is not finite "
                f"({logs['loss']}). Lower the learning rate, warm up for longer, or clip the "
                "gradients."
            )
        sign = -1 if section.metric == "loss" else 1
        # The recipe may have named another metric when the best one was found.
        is_first = self.best is None or section.metric not in self.best
        is_best = is_first or sign * value > sign * self.best[section.metric]
        if is_best:
            self.best = {**logs, section.metric: value}
            self.best_update, self.evaluations_since_best = self.loop.updates_done, 0
        else:
            self.evaluations_since_best += 1
        self._log("validation", logs)
        self.seconds += time.perf_counter() - start
        figures = ", ".join(metric_phrase(name, value) for name, value in logs.items())
        self.report.say(f"Update {self.loop.updates_done:,}: validation {figures}")
        return is_best

    def _measure(self):
        self.report.busy("Evaluating")
        use_averages = self.recipe.checkpoints.final == "ema"
        with moving_averages(self.model) if use_averages else contextlib.nullcontext():
            self.tell("on_test_begin")
            logs = self.validation.measure(most=DRY_UPDATES if self.is_dry_run else None)
            self.tell("on_test_end", logs)
        return logs

    def _log(self, split, logs):
        if self.distribution.is_chief:
            update = self.loop.updates_done
            epoch = self.plan.epoch(update)
            self.logs.write({"split": split, "update": update, "epoch": epoch, **logs})

    # What there is to tell.

    def tell(self, method, *arguments):
        """Calls a method of each callback."""
        with named_file_errors(self.run.tensorboard):
            for callback in self.callbacks:
                getattr(callback, method)(*arguments)

    def _headline(self):
        batches = self.data.batches.report()
        return (
            f"{self.distribution.describe()}, {self.recipe.training.precision}, "
            f"{self.model.count_params():,} parameters, {self.plan.batches:,} batches an epoch of "
            f"up to {self.recipe.batches.tokens:,} tokens, {batches.efficiency:.0%} full"
        )


class _Rate:
    """How many a second, over several calls."""

    def __init__(self):
        self._count = self._seconds = 0.0

    def add(self, count, seconds):
        self._count += count
        self._seconds += seconds

    @property
    def value(self):
        return self._count / self._seconds if self._seconds else 0.0
