"""Optimizers, schedules, loggers, metrics and export formats in recipes once registered."""

import dataclasses

import keras
import pytest

from keras_transformer._utils.checks import require_positive_integer, require_rate
from keras_transformer.export.formats import FORMATS, ExportFormat, register_export_format
from keras_transformer.metrics import TEXT_METRICS, TextMetric, register_text_metric
from keras_transformer.schedules import SCHEDULES, WarmUpSchedule, register_schedule
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.loggers import LOGGERS, Logger, register_logger
from keras_transformer.trainer.optimizers import OPTIMIZERS, OptimizerConfig, register_optimizer
from keras_transformer.trainer.section import setting
from tests.mistakes import assert_mistake
from tests.trainer.recipe.examples import TRANSLATION, changed, recipe_error


@pytest.fixture(autouse=True)
def members():
    """Registers a member in each registry, for one test."""

    @register_optimizer("test_lion")
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Lion(OptimizerConfig):
        beta_1: float = setting(0.9, require_rate)

        def build(self, learning_rate, **shared):
            return keras.optimizers.Lion(learning_rate, beta_1=self.beta_1, **shared)

    @register_schedule("test_stairs")
    class Stairs(WarmUpSchedule):
        @classmethod
        def for_training(
            cls, *, peak_rate, warmup_steps, total_steps, final_rate, hidden_dim, height=1
        ):
            schedule = cls(peak_rate, warmup_steps)
            schedule.height = require_positive_integer("height", height)
            return schedule

        def rate_after_warmup(self, step):
            return self.peak_rate // self.height

    @register_logger("test_paper")
    class Paper(Logger):
        for_run = log_metrics = None

    @register_text_metric("test_ter")
    class Ter(TextMetric):
        title = "TER"
        higher_is_better = False

        def compute(self, hypotheses, references):
            return 0.0

    @register_export_format("test_drawing")
    class Drawing(ExportFormat):
        write = None

    yield
    del OPTIMIZERS["test_lion"], SCHEDULES["test_stairs"], LOGGERS["test_paper"]
    del TEXT_METRICS["test_ter"], FORMATS["test_drawing"]


def test_registered_optimizer_is_built_with_its_options():
    training = {"optimizer": "test_lion", "optimizer_options": {"beta_1": 0.7}}
    recipe = Recipe.from_dictionary(changed(TRANSLATION, training=training))
    optimizer = recipe.training.optimizer_config().build(1e-3, global_clipnorm=1.0)
    assert isinstance(optimizer, keras.optimizers.Lion)
    assert optimizer.beta_1 == 0.7
    assert Recipe.from_dictionary(recipe.to_dictionary()) == recipe


@pytest.mark.parametrize(
    ("options", "got"), [({"beta_1": 2}, 2), ({"weight_decay": 0.1}, "weight_decay")]
)
def test_options_of_a_registered_optimizer_are_checked(options, got):
    training = {"optimizer": "test_lion", "optimizer_options": options}
    error = recipe_error(TRANSLATION, training=training)
    assert_mistake(error, key=f"training.optimizer_options.{next(iter(options))}", got=got)


def test_registered_schedule_is_built_with_its_options():
    training = {"schedule": "test_stairs", "learning_rate": 0.1, "schedule_options": {"height": 3}}
    recipe = Recipe.from_dictionary(changed(TRANSLATION, training=training))
    schedule = recipe.training.learning_rate_schedule(hidden_dim=8, total_steps=10)
    assert (schedule.height, schedule.peak_rate) == (3, 0.1)


@pytest.mark.parametrize(("options", "got"), [({"height": 0}, 0), ({"width": 1}, "width")])
def test_options_of_a_registered_schedule_are_checked(options, got):
    training = {"schedule": "test_stairs", "learning_rate": 0.1, "schedule_options": options}
    error = recipe_error(TRANSLATION, training=training)
    assert_mistake(error, key=f"training.schedule_options.{next(iter(options))}", got=got)


def test_registered_logger_metric_and_format_are_choices():
    recipe = Recipe.from_dictionary(
        changed(
            TRANSLATION,
            training={"loggers": ["test_paper"]},
            evaluation={"metric": "test_ter", "metrics": ["bleu", "test_ter"]},
            export={"format": "test_drawing"},
        )
    )
    assert recipe.training.loggers == ("test_paper",)
    assert recipe.evaluation.metric == "test_ter"
    assert recipe.evaluation.metrics == ("bleu", "test_ter")
    assert recipe.export.format == "test_drawing"
    assert Recipe.from_dictionary(recipe.to_dictionary()) == recipe


def test_metric_of_the_best_evaluation_must_be_computed():
    error = recipe_error(TRANSLATION, evaluation={"metric": "test_ter", "metrics": ["bleu"]})
    assert_mistake(error, key="evaluation.metrics", expected="'test_ter'", got=["bleu"])


def test_weights_are_refused_for_a_format_without_this_setting():
    error = recipe_error(TRANSLATION, export={"format": "test_drawing", "weights": "float16"})
    assert_mistake(error, key="export.weights", expected="'test_drawing'", got="float16")


@pytest.mark.parametrize(
    ("section", "key", "name"),
    [
        ("training", "optimizer", "test_lion"),
        ("training", "schedule", "test_stairs"),
        ("training", "loggers", "test_paper"),
        ("evaluation", "metric", "test_ter"),
        ("evaluation", "metrics", "test_ter"),
        ("export", "format", "test_drawing"),
    ],
)
def test_unknown_names_are_answered_with_the_registered_ones(section, key, name):
    value = [f"{name}s"] if key in ("loggers", "metrics") else f"{name}s"
    error = recipe_error(TRANSLATION, **{section: {key: value}})
    assert_mistake(error, key=f"{section}.{key}", expected=f"'{name}'", fix=f"'{name}'")
