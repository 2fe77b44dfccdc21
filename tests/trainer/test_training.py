"""Result and profile of a finished training."""

import json

import pytest
import tensorflow as tf

from keras_transformer.export import FORMATS, ExportFormat, register_export_format
from keras_transformer.metrics import TEXT_METRICS, TextMetric, register_text_metric
from keras_transformer.trainer import load_recipe, train
from keras_transformer.trainer.progress import TrainingReport
from tests.trainer.small_runs import make_recipe, make_values


def test_test_corpus_is_never_used_for_validation(corpora, trainings, tmp_path):
    recipe = make_recipe(
        {**corpora, "test": {"unseen": [corpora["train"]]}},
        evaluation={"every": 12, "sentences": 0},
        tensorboard={"attention": 2},
    )
    trainings.train(recipe, tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert not set(TEXT_METRICS) & set(result["validation"])
    # By default, all registered metrics.
    assert set(result["tests"]["unseen"]["metrics"]) == set(TEXT_METRICS)
    assert result["tests"]["unseen"]["sentences"] == 60


@pytest.mark.parametrize("call_seconds", [0.0, 1e9])
def test_profile_has_exactly_the_steps_of_the_recipe(
    corpora, trainings, tmp_path, monkeypatch, call_seconds
):
    """The number of steps per call and the points of the curves have no effect."""
    trainings.parts.call_seconds = call_seconds
    calls = []
    profiler = tf.profiler.experimental
    monkeypatch.setattr(
        profiler, "start", lambda directory: calls.append(("start", trainings.loop.steps_done))
    )
    monkeypatch.setattr(profiler, "stop", lambda: calls.append(("stop", trainings.loop.steps_done)))
    recipe = make_recipe(corpora, tensorboard={"every": 50, "profile": [6, 7]})
    trainings.train(recipe, tmp_path / "run")
    assert calls == [("start", 5), ("stop", 7)]


@pytest.fixture
def members():
    """Registers a metric and an export format, as files in the package would."""

    @register_text_metric("test_words")
    class Words(TextMetric):
        title = "words"

        def compute(self, hypotheses, references):
            return float(sum(len(reference.split()) for reference in references))

    @register_export_format("test_listing")
    class Listing(ExportFormat):
        def write(self, directory, name, version):
            names = [weight.path for weight in self.trained.model.weights]
            (directory / "weights.txt").write_text("\n".join([name, *names]), encoding="utf-8")

    yield
    del TEXT_METRICS["test_words"], FORMATS["test_listing"]


@pytest.mark.usefixtures("members")
def test_listed_metrics_and_the_export_format_are_those_of_the_recipe(corpora, trainings, tmp_path):
    recipe = make_recipe(
        {**corpora, "test": {"unseen": [corpora["train"]]}},
        evaluation={"every": 12, "sentences": 2, "metrics": ["test_words"]},
        export={"enabled": True, "format": "test_listing"},
    )
    trainings.train(recipe, tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    token_metrics = {"loss", "accuracy", "perplexity"}
    assert set(result["validation"]) == set(result["best"]) == token_metrics | {"test_words"}
    assert result["validation"]["test_words"] == 2 * 3
    assert set(result["tests"]["unseen"]["metrics"]) == {"test_words"}
    assert result["tests"]["unseen"]["sentences"] == 60
    exported = (tmp_path / "run/export/phrases/1/weights.txt").read_text().splitlines()
    assert exported == ["phrases", *(weight.path for weight in trainings.model.weights)]


def test_epoch_whose_batches_do_not_fill_whole_steps(corpora, trainings, tmp_path):
    recipe = make_recipe(corpora, batches={"accumulate": 3}, training={"steps": None, "epochs": 9})
    trainings.train(recipe, tmp_path / "run")
    batches = len(trainings.loop.batches)
    assert batches % 3
    assert trainings.spy.epoch_steps == batches / 3


def test_recipe_as_dictionary_trains_like_the_recipe(corpora, trainings, tmp_path):
    trainings.train(make_values(corpora), tmp_path / "run")
    assert load_recipe(tmp_path / "run" / "recipe.yaml") == make_recipe(corpora)


def test_finished_run_is_returned_without_training(corpora, trainings, tmp_path):
    trainings.train(make_recipe(corpora), tmp_path / "run")
    # A path this time: the recipe that the run has stored.
    result = train(tmp_path / "run" / "recipe.yaml", tmp_path / "run", report=TrainingReport())
    assert (result.steps, result.stopped_by) == (12, None)
