"""The end of a training: final weights, how good they are, and the exported model."""

import pathlib
import shutil
import time

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer.data.corpora.conllu import conllu_text
from keras_transformer.export import TrainedModel, export_model
from keras_transformer.export.modules import make_text_module
from keras_transformer.inference import evaluate
from keras_transformer.trainer.checkpoints import (
    WEIGHTS,
    DamagedCheckpointError,
    assign_variables,
    mean_weights,
    moving_averages,
    training_variables,
)
from keras_transformer.trainer.training_plan import DRY_UPDATES, TrainingPlan
from keras_transformer.trainer.training_result import TrainingResult, store_result

# Texts on which an export is tried.
_EXAMPLES = 4


class TrainingEnd:
    """What comes after the last update.

    Args:
        training: the `TrainingRun`, all of whose updates are made.
    """

    def __init__(self, training):
        self.training = training
        self.recipe, self.run, self.data = training.recipe, training.run, training.data
        self.model, self.report, self.quality = training.model, training.report, training.quality
        self.is_dry_run = training.is_dry_run
        self._judges_validation = bool(
            self.quality and self.recipe.evaluation.sentences and self.data.validation_texts
        )

    def reach(self):
        """Makes the final weights, judges them, exports them.

        Returns:
            the `TrainingResult`; None in workers other than the first.
        """
        start = time.perf_counter()
        # All wait until the chief has saved the last update.
        self.training.distribution.sum_over_workers(0)
        self._take_final_weights()
        validation = {}
        if self.training.validation is not None:
            self.report.busy("Evaluating the final weights")
            validation = self.training.validation.measure(
                most=DRY_UPDATES if self.is_dry_run else None
            )
        if not self.training.distribution.is_chief:
            return None
        if self._judges_validation:
            validation |= self.quality.measure()
        tests, samples = self._run_tests()
        self.training.tell("on_train_end")
        export = None
        if self.is_dry_run:
            self._rehearse_export()
        else:
            export = self._export({"validation": validation, "tests": _measures(tests)})
        self.training.seconds += time.perf_counter() - start
        result = TrainingResult(
            name=self.recipe.name,
            run_directory=self.run.path,
            steps=self.training.loop.updates_done,
            epochs=self.training.plan.epoch(self.training.loop.updates_done),
            seconds=self.training.seconds,
            parameters=self.model.count_params(),
            tensorboard=self.run.tensorboard,
            validation=validation,
            best=self.training.best,
            best_step=self.training.best_update,
            tests=tests,
            samples=samples,
            export=export,
            stopped_by="early stopping" if self.training.is_stopped_early else None,
            resumed_from=self.training.resumed_from,
            traces=self.training.loop.traces,
            **self._pace(),
            is_dry_run=self.is_dry_run,
        )
        store_result(self.run.result, result)
        return result

    def _pace(self):
        """How fast it went in the end, and how long the whole recipe would take at that pace."""
        planned = TrainingPlan.of(self.recipe, len(self.data.batches)).total
        if self.training.last_call is None:
            return {"planned_steps": planned}
        updates, tokens, seconds = self.training.last_call
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
        elif section.final == "best" and self.training.best_update is not None:
            values = self._best_weights()
        else:
            values = mean_weights(self._sound_checkpoints(section.average))
        assign_variables(self._weights(), values, self.run.checkpoints)

    def _weights(self):
        variables = training_variables(self.model)
        return {name: value for name, value in variables.items() if name.startswith(f"{WEIGHTS}/")}

    def _best_weights(self):
        try:
            return self.training.checkpoints.read(self.training.best_update).tensors(f"{WEIGHTS}/")
        except DamagedCheckpointError as error:
            raise UserError(
                f"{error} It held the best weights. To take others, give --force and "
                "--set checkpoints.final=average or last; to make them again, give another "
                "directory with --run."
            ) from error

    def _sound_checkpoints(self, count):
        sound = []
        for update in self.training.checkpoints.latest_regular(count):
            try:
                sound.append(self.training.checkpoints.read(update))
            except DamagedCheckpointError as error:
                self.report.say(f"{error} The average is taken without it.")
        return sound

    def _run_tests(self):
        """The `Evaluation` of each test set, and some translations to look at."""
        tests = {}
        samples = ()
        show = self.recipe.evaluation.show
        if self._judges_validation and self.quality.hypotheses:
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
                samples = tuple(zip(map(conllu_text, sources), references, shown, strict=False))
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


def _measures(tests):
    return {
        name: {"bleu": test.bleu, "chrf": test.chrf, "exact_match": test.exact_match_share}
        for name, test in tests.items()
    }
