"""A training from its first update, or from its last checkpoint, to the exported model."""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.errors import UserError
from keras_transformer.export import TrainedModel, export_model
from keras_transformer.export.modules import make_text_module
from keras_transformer.inference import evaluate
from keras_transformer.losses import TokenCrossEntropy
from keras_transformer.models import (
    ConvolutionalSeq2Seq,
    LanguageModel,
    RecurrentSeq2Seq,
    Transformer,
)
from keras_transformer.trainer.checkpoints import Checkpoints, DamagedCheckpointError
from keras_transformer.trainer.distribution import Distribution
from keras_transformer.trainer.file_errors import named_file_errors
from keras_transformer.trainer.growing_logs import GrowingLogs
from keras_transformer.trainer.optimizers import make_optimizer
from keras_transformer.trainer.preparation import prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.progress.figures import metric_phrase
from keras_transformer.trainer.recipe import Recipe, load_recipe
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.stop_request import StopRequest
from keras_transformer.trainer.stored_result import read_result, store_result
from keras_transformer.trainer.tensorboard import (
    AttentionMaps,
    EmbeddingProjector,
    HyperParameters,
    ProfileSteps,
    SampleTranslations,
    TrainingScalars,
    WeightHistograms,
    close_all,
    flush_all,
)
from keras_transformer.trainer.training_failed import TrainingFailed
from keras_transformer.trainer.training_loop import TrainingLoop
from keras_transformer.trainer.training_plan import TrainingPlan
from keras_transformer.trainer.training_result import TrainingResult
from keras_transformer.trainer.training_stopped import TrainingStopped
from keras_transformer.trainer.training_variables import (
    WEIGHTS,
    assign_variables,
    mean_weights,
    moving_averages,
    training_variables,
)
from keras_transformer.trainer.training_window import TrainingWindow
from keras_transformer.trainer.translation_quality import TranslationQuality
from keras_transformer.trainer.validation_loop import ValidationLoop

#: The models that are trained by recipes, by the classes of their configs.
MODELS = {
    model.config_class: model
    for model in (Transformer, RecurrentSeq2Seq, ConvolutionalSeq2Seq, LanguageModel)
}

# A stop is heeded between two calls of the compiled loop: a call is to take about so long.
_CALL_SECONDS = 0.5
# Workers have clocks of their own and must all make the same number of updates in a call.
_CALL_UPDATES_OF_WORKERS = 10
_DRY_UPDATES = 2
# Texts on which an export is tried.
_EXAMPLES = 4


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
                    data, validation_texts=data.validation_texts[:_DRY_UPDATES], tests={}
                )
            stack.callback(close_all)
            report.stage("Building the model")
            training = Training(
                recipe, run, distribution, data, report, stop, callbacks, is_dry_run=dry_run
            )
            training.resume()
        training.run_updates()
        with stop.stop_at_once():
            result = training.finish()
    if result is not None:
        report.end(result)
    return result


class Training:
    """One training: model, loops, checkpoints and logs, made from a recipe and its data.

    `train` makes it and calls `resume`, `run_updates` and `finish`.
    """

    def __init__(
        self, recipe, run, distribution, data, report, stop, callbacks=(), is_dry_run=False
    ):
        self.recipe, self.run, self.distribution = recipe, run, distribution
        self.data, self.report, self.stop = data, report, stop
        self.is_dry_run = is_dry_run
        self.plan = TrainingPlan.of(
            recipe, len(data.batches), most=_DRY_UPDATES if is_dry_run else None
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
        self.quality = self._make_quality()
        self.callbacks = [*self._make_callbacks(), *callbacks] if distribution.is_chief else []
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
        self._last_call = None  # updates, tokens and seconds of it, if nothing was traced

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
            self.seconds = state["seconds"]
            self.resumed_from = update
            self.report.say(f"Going on after update {update:,}.")
        self.loop.go_on_after(update)
        if self.distribution.is_chief:
            self.logs.cut_to(state["logs"], self.report.say)

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
            self._headline(), self.loop.updates_done, self.plan.total, self._epoch_updates()
        )
        self._tell("on_train_begin")
        self._tell("on_epoch_begin", int(self.plan.epoch(self.loop.updates_done)))
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
            raise TrainingStopped(self.loop.updates_done, self.stop.exit_code or 143)

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
        self._last_call = None if is_traced else (len(records), tokens, seconds)
        self._tokens_per_second.add(tokens, seconds)
        logs = {**self.window.logs(), "tokens_per_second": self._tokens_per_second.value}
        self.report.update(self.loop.updates_done, logs)

    def _do_what_is_due(self, update):
        if self.plan.is_due("log", update):
            logs = self.window.logs()
            self._log("train", logs)
            timed = {**logs, "tokens_per_second": self._tokens_per_second.value}
            self._tell("on_train_batch_end", update - 1, timed)
            self.window, self._tokens_per_second = TrainingWindow(), _Rate()
        is_best = False
        if self.plan.is_due("evaluate", update) and self.validation is not None:
            is_best = self._evaluate()
        if self.plan.ends_epoch(update):
            epoch = int(self.plan.epoch(update))
            self._tell("on_epoch_end", epoch - 1, {})
            self._tell("on_epoch_begin", epoch)
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
        is_best = self.best is None or sign * value > sign * self.best[section.metric]
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
            self._tell("on_test_begin")
            logs = self.validation.measure(most=_DRY_UPDATES if self.is_dry_run else None)
            self._tell("on_test_end", logs)
        return logs

    def _log(self, split, logs):
        if self.distribution.is_chief:
            update = self.loop.updates_done
            epoch = self.plan.epoch(update)
            self.logs.write({"split": split, "update": update, "epoch": epoch, **logs})

    # The end.

    def finish(self):
        """Makes the final weights, judges them, exports them, and returns the `TrainingResult`."""
        start = time.perf_counter()
        self.distribution.sum_over_workers(0)  # all wait until the chief has saved the last update
        self._take_final_weights()
        validation = {}
        if self.validation is not None:
            self.report.busy("Evaluating the final weights")
            validation = self.validation.measure(most=_DRY_UPDATES if self.is_dry_run else None)
        if not self.distribution.is_chief:
            return None
        if self.quality is not None and self.data.validation_texts:
            validation |= self.quality.measure()
        tests, samples = self._run_tests()
        self._tell("on_train_end")
        export = None
        if self.is_dry_run:
            self._rehearse_export()
        else:
            export = self._export({"validation": validation, "tests": _measures(tests)})
        self.seconds += time.perf_counter() - start
        result = TrainingResult(
            name=self.recipe.name,
            run_directory=self.run.path,
            steps=self.loop.updates_done,
            epochs=self.plan.epoch(self.loop.updates_done),
            seconds=self.seconds,
            parameters=self.model.count_params(),
            tensorboard=self.run.tensorboard,
            validation=validation,
            best=self.best,
            best_step=self.best_update,
            tests=tests,
            samples=samples,
            export=export,
            stopped_by="early stopping" if self.is_stopped_early else None,
            resumed_from=self.resumed_from,
            traces=self.loop.traces,
            **self._pace(),
            is_dry_run=self.is_dry_run,
        )
        store_result(self.run.result, result)
        return result

    def _pace(self):
        """How fast it went in the end, and how long the whole recipe would take at that pace."""
        planned = TrainingPlan.of(self.recipe, len(self.data.batches)).total
        if self._last_call is None:
            return {"planned_steps": planned}
        updates, tokens, seconds = self._last_call
        return {
            "tokens_per_second": tokens / seconds,
            "planned_steps": planned,
            "planned_seconds": planned * seconds / updates,
        }

    def _take_final_weights(self):
        section = self.recipe.checkpoints
        if self.is_dry_run or section.final == "last":
            return
        self.report.busy("Taking the final weights")
        if section.final == "ema":
            with moving_averages(self.model):
                values = {name: variable.numpy() for name, variable in self._weights().items()}
        elif section.final == "best" and self.best_update is not None:
            values = self._best_weights()
        else:
            values = mean_weights(self._sound_checkpoints(section.average))
        assign_variables(self._weights(), values, self.run.checkpoints)

    def _weights(self):
        variables = training_variables(self.model)
        return {name: value for name, value in variables.items() if name.startswith(f"{WEIGHTS}/")}

    def _best_weights(self):
        try:
            return self.checkpoints.read(self.best_update).tensors(f"{WEIGHTS}/")
        except DamagedCheckpointError as error:
            raise UserError(
                f"{error} It held the best weights. To take others, give --force and "
                "--set checkpoints.final=average or last; to make them again, give another "
                "directory with --run."
            ) from error

    def _sound_checkpoints(self, count):
        sound = []
        for update in self.checkpoints.latest_regular(count):
            try:
                sound.append(self.checkpoints.read(update))
            except DamagedCheckpointError as error:
                self.report.say(f"{error} The average is taken without it.")
        return sound

    def _run_tests(self):
        """The `Evaluation` of each test set, and some translations to look at."""
        tests = {}
        samples = ()
        show = self.recipe.evaluation.show
        if self.quality is not None and self.data.validation_texts and self.quality.hypotheses:
            samples = self.quality.samples(show)
        for number, (name, pairs) in enumerate(self.data.tests.items()):
            if self.quality is None:
                break
            self.report.busy(f"Translating {name}")
            sources, references = map(list, zip(*pairs, strict=True))
            tests[name] = evaluate(
                self.quality.text_model,
                sources,
                references,
                bleu_tokens=self.recipe.evaluation.bleu_tokens,
            )
            if number == 0:
                shown = self.quality.translate(sources[:show])
                samples = tuple(zip(sources, references, shown, strict=False))
        return tests, samples

    def _trained_model(self, quality=None):
        return TrainedModel(
            self.model,
            self.data.tokenizers,
            recipe=self.recipe.to_dictionary(),
            quality=quality,
            examples=[texts[0] for texts in self.data.validation_texts[:_EXAMPLES]],
        )

    def _rehearse_export(self):
        """Traces what an export holds; a model that translates has been through most of it."""
        if self.quality is None:
            search = self.recipe.evaluation.search_settings()
            for function in make_text_module(self._trained_model(), search).functions.values():
                function.concrete  # noqa: B018 (traced when it is first asked for)

    def _export(self, quality):
        trained = self._trained_model(quality)
        self.report.busy("Saving the model")
        shutil.rmtree(self.run.model, ignore_errors=True)  # of an end that was interrupted
        with named_file_errors(self.run.model):
            trained.save(self.run.path)
        section = self.recipe.export
        if not section.enabled:
            return None
        self.report.busy("Exporting")
        directory = pathlib.Path(section.to or self.run.export, self.recipe.name)
        search = self.recipe.evaluation.search_settings()
        with named_file_errors(directory):
            return export_model(trained, directory, search=search, weights=section.weights)

    # What there is to tell.

    def _tell(self, method, *arguments):
        with named_file_errors(self.run.tensorboard):
            for callback in self.callbacks:
                getattr(callback, method)(*arguments)

    def _make_quality(self):
        is_wanted = self.recipe.task == "translation" and self.distribution.is_chief
        if not is_wanted:
            return None
        count = self.recipe.evaluation.sentences
        pairs = self.data.validation_texts[:count] or next(iter(self.data.tests.values()), [])
        if not pairs:
            return None
        sources, references = map(list, zip(*pairs, strict=True))
        quality = TranslationQuality(
            self.data.tokenizers,
            sources,
            references,
            self.recipe.evaluation.search_settings(),
            self.recipe.evaluation.bleu_tokens,
        )
        quality.set_model(self.model)
        return quality

    def _make_callbacks(self):
        section, directory = self.recipe.tensorboard, self.run.tensorboard
        texts = self.data.validation_texts
        values = {
            name: value
            for name, value in self.recipe.to_dictionary().items()
            if name in ("model", "text", "batches", "training", "seed")
        }
        yield HyperParameters(directory, values, name=self.run.path.name)
        is_translated = self.quality is not None and texts and self.recipe.evaluation.sentences
        if is_translated:
            yield self.quality
        # It is told about the updates that are due, and of no others.
        yield TrainingScalars(directory, every=None)
        if is_translated and section.samples:
            yield SampleTranslations(directory, self.quality, rows=section.samples)
        if section.attention and texts:
            columns = list(zip(*texts[: section.attention], strict=True))
            yield AttentionMaps(directory, self.data.tokenizers, *map(list, columns))
        if section.projector:
            yield EmbeddingProjector(directory, self.data.tokenizers)
        if section.histograms:
            yield WeightHistograms(directory)
        if section.profile:
            yield ProfileSteps(directory, *section.profile)

    def _epoch_updates(self):
        return -(-self.plan.batches // self.plan.accumulate)

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


def make_model(recipe, tokenizers):
    """Makes the untrained model of a recipe, for a vocabulary that was learned."""
    config = recipe.model.make_config(
        recipe.task,
        tokenizers.source.vocabulary_size,
        None if tokenizers.is_shared else tokenizers.target.vocabulary_size,
        is_packed=recipe.batches.packed,
    )
    return MODELS[type(config)](config, dtype=recipe.training.precision)


def make_loop(recipe, model, batches, updates, accumulate):
    """Compiles a recipe's model and returns the `TrainingLoop` that trains it.

    Args:
        recipe: the `Recipe`.
        model: what `make_model` gave.
        batches: the training `Batches`.
        updates: how many there will be, for schedules that end.
        accumulate: batches in an update.
    """
    section = recipe.training
    optimizer = make_optimizer(section, model.config.width, updates)
    model.compile(optimizer, TokenCrossEntropy(section.label_smoothing), jit_compile=False)
    return TrainingLoop(
        model,
        batches,
        accumulate=accumulate,
        jit_compile=section.xla,
        consistency=section.consistency,
    )


def _measures(tests):
    return {
        name: {"bleu": test.bleu, "chrf": test.chrf, "exact_match": test.exact_match_share}
        for name, test in tests.items()
    }


def _make_deterministic(recipe):
    """The same recipe gives the same numbers, on the same machine."""
    seed = int(np.random.SeedSequence(recipe.seed).generate_state(1)[0])
    keras.utils.set_random_seed(seed)
    if recipe.training.deterministic:
        tf.config.experimental.enable_op_determinism()
