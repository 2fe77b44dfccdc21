"""Comparisons of small models: plan, training, interruption, results."""

import json
import pathlib
import shutil
import signal

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import Comparison, ComparisonStopped, compare, planning
from keras_transformer.analysis.compare.running import plan_comparison
from keras_transformer.analysis.compare.runs import ComparedRun, measure_run
from keras_transformer.trainer.signals import TrainingFailed, TrainingStopped
from tests import phrases
from tests.trainer.small_runs import Spy, Trainings, make_recipe

# A point of the curve at each step, so that its speed is known.
SETTINGS = {"training.schedule": "constant", "tensorboard.every": 1}
WITHOUT_TESTS = {**SETTINGS, "data.test": {}}
MODELS = {"sinusoidal": {}, "rotary": {"attention": "rotary"}}


@pytest.fixture(scope="module")
def recipe(corpora, tmp_path_factory):
    """Path of a recipe with a test set that has a distance and one without."""
    directory = tmp_path_factory.mktemp("recipe")
    (directory / "test.tsv").write_text(
        "".join(f"{source}\t{target}\n" for source, target in phrases.make_pairs()[200:212])
    )
    files = {name: str(directory / "test.tsv") for name in ("distance_4", "others")}
    path = directory / "recipe.yaml"
    training = {"steps": None, "epochs": 1, "deterministic": False}
    path.write_text(make_recipe({**corpora, "test": files}, training=training).to_yaml())
    return path


def make_comparison(recipe, **changes):
    values = {
        "name": "phrases",
        "recipe": str(recipe),
        "models": MODELS,
        "settings": SETTINGS,
        "budget": {"tokens": 400},
        "seeds": [1, 2],
    }
    return Comparison(**{**values, **changes})


class Stages:
    """Does the stages in this process, with the exit codes of the command, and records them.

    A run with another seed than 1 is not trained, but gets the files of the run with seed 1.

    Args:
        trainings: The fixture.
        after: Functions that are called after steps, see `Spy`.
        exit_codes: Exit codes of runs that end at once, by the name of their directory.
    """

    def __init__(self, trainings, after=None, exit_codes=None):
        self.done = []
        self.after = after
        self._exit_codes = exit_codes or {}
        self._parts = trainings.parts

    def __call__(self, stage, directory):
        self.done.append((stage, directory))
        if stage == "plan":
            plan_comparison(directory, report=ignore)
            return 0
        if directory.name in self._exit_codes:
            return self._exit_codes[directory.name]
        if directory.name != "seed_1":
            for name in ("run", "measured.json"):
                copy = shutil.copytree if name == "run" else shutil.copyfile
                copy(directory.with_name("seed_1") / name, directory / name)
            return 0
        try:
            measure_run(ComparedRun(directory), Spy(self.after), self._parts)
        except TrainingStopped as stopped:
            return stopped.exit_code
        except TrainingFailed:
            return 1
        return 0


def runs(stages):
    return ["/".join(path.parts[-2:]) for stage, path in stages.done if stage == "run"]


def ignore(text):
    """Ignores a report."""


@pytest.fixture(scope="module")
def compared(recipe, tmp_path_factory):
    """Stages, directory and results of a comparison of two models with two seeds.

    Tests must not change the directory.
    """
    stages = Stages(Trainings())
    output = tmp_path_factory.mktemp("compared") / "out"
    results = compare(make_comparison(recipe), output, report=ignore, run_stage=stages)
    return stages, output, results


def test_two_models_with_two_seeds_are_compared(compared):
    stages, output, results = compared
    names = ["sinusoidal/seed_1", "rotary/seed_1", "sinusoidal/seed_2", "rotary/seed_2"]
    assert [stage for stage, _ in stages.done] == ["plan", *["run"] * 4]
    assert runs(stages) == names
    sinusoidal, rotary = results.models
    assert (sinusoidal.model, rotary.model) == ("sinusoidal", "rotary")
    assert results.missing == ()
    for result in results.models:
        assert result.seeds == (1, 2)
        assert len(result.measures["loss"].values) == 2
        assert result.measures["peak_memory_mb"].mean > 100
        assert result.measures["tokens_per_second"].mean > 0
    # The same budget for all, rounded to steps.
    plan = json.loads((output / "plan.json").read_text())
    assert sinusoidal.steps == rotary.steps == round(400 / plan["tokens_per_step"]) > 1
    # Both mechanisms have no parameters.
    assert sinusoidal.parameters == rotary.parameters == plan["models"]["rotary"]["parameters"]
    for name in ("comparison.md", "comparison.json", "comparison.png"):
        assert (output / name).stat().st_size > 100


def test_test_sets_give_quality_by_distance_and_by_length(compared):
    *_, results = compared
    result = results.models[0]
    assert [distance for distance, _ in result.by_distance] == [4]
    assert list(result.tests) == ["others"]
    assert result.measures["longest_solved"].values == (0, 0)
    lengths = [len(source.encode()) for source, _ in phrases.make_pairs()[200:212]]
    assert result.by_length[0][0] == min(lengths)
    assert result.by_length[-1][1] == max(lengths)
    assert results.quality == "bleu"


def test_finished_comparison_is_extended(compared, recipe, trainings, tmp_path):
    """Nothing is repeated; new runs are trained."""
    _, output, results = compared
    output = shutil.copytree(output, tmp_path / "out")
    stages = Stages(trainings)
    again = compare(make_comparison(recipe), output, report=ignore, run_stage=stages)
    assert stages.done == []
    assert again == results
    more = make_comparison(recipe, seeds=[3, 1], models={"rotary": MODELS["rotary"]})
    compare(more, output, report=ignore, run_stage=stages)
    assert runs(stages) == ["rotary/seed_3"]

    # Runs with another recipe are not continued.
    changed = make_comparison(recipe, settings={**SETTINGS, "training.clip_norm": 3.0})
    with pytest.raises(UserError, match=r"sinusoidal/seed_1: .*clip_norm was 1\.0, is 3\.0"):
        compare(changed, output, report=ignore, run_stage=stages)


def test_stopped_run_is_resumed(trainings, recipe, tmp_path):
    alone = {"models": {"sinusoidal": {}}, "seeds": [1]}
    comparison = make_comparison(recipe, **alone, settings=WITHOUT_TESTS)
    output = tmp_path / "out"
    stop = {1: lambda: trainings.parts.stop_request.request(signal.SIGTERM)}
    with pytest.raises(ComparisonStopped) as caught:
        compare(comparison, output, report=ignore, run_stage=Stages(trainings, after=stop))
    assert caught.value.exit_code == 143
    assert not (output / "comparison.md").exists()
    stages = Stages(trainings)
    results = compare(comparison, output, report=ignore, run_stage=stages)
    assert stages.done == [("run", output / "sinusoidal" / "seed_1")]  # the plan is kept
    result = json.loads((output / "sinusoidal/seed_1/run/result.json").read_text())
    assert result["resumed_from"] == 1
    assert results.models[0].steps == result["steps"]


def test_failed_run_is_left_out_and_reported(compared, trainings, recipe, tmp_path):
    output = shutil.copytree(compared[1], tmp_path / "out")
    reported = []
    comparison = make_comparison(recipe, models={"sinusoidal": {}}, seeds=[1, 3])
    stages = Stages(trainings, exit_codes={"seed_3": 1})
    results = compare(comparison, output, report=reported.append, run_stage=stages)
    assert results.missing == (("sinusoidal", 3),)
    assert results.models[0].seeds == (1,)
    assert "seed_3" in reported[-1]
    assert "failed" in reported[-1]


def count_without_building(self, recipe):
    return 1000 + 10 * recipe.model.settings["intermediate_dim"]


def test_model_of_another_size_is_refused_or_matched(trainings, recipe, tmp_path, monkeypatch):
    models = {"sinusoidal": {}, "wide": {"intermediate_dim": 64}}
    stages, comparison = Stages(trainings), make_comparison(recipe, models=models)
    with pytest.raises(UserError, match=r"'wide' .*`model\.intermediate_dim`.*--match"):
        compare(comparison, tmp_path / "out", report=ignore, run_stage=stages)
    assert runs(stages) == []
    monkeypatch.setattr(planning._Planner, "_count", count_without_building)
    # With a budget in seconds, the number of steps depends on the speed.
    monkeypatch.setattr(planning._Planner, "_steps_per_second", lambda self, recipe: 2.0)
    comparison = make_comparison(recipe, models=models, match=True, budget={"seconds": 6})
    plan = planning.make_plan(comparison, report=ignore)
    assert plan["models"]["wide"]["overrides"] == ["model.intermediate_dim=32"]
    assert plan["models"]["wide"]["steps"] == 12
    parameters = [entry["parameters"] for entry in plan["models"].values()]
    assert parameters[0] == parameters[1]


def test_models_are_matched_again_to_another_first_model(recipe, monkeypatch):
    monkeypatch.setattr(planning._Planner, "_count", count_without_building)
    comparison = make_comparison(recipe, models={"a": {}, "b": {}}, match=True)
    plan = planning.make_plan(comparison, report=ignore)
    models = {"c": {"intermediate_dim": 400}, "b": {}}
    comparison = make_comparison(recipe, models=models, match=True)
    recipes = comparison.recipes()

    def stored(comparison):
        fingerprints = planning.data_fingerprints(recipes)
        return planning.stored_models(comparison, recipes, fingerprints, plan)

    assert any(planning.unplanned_models(comparison, stored(comparison)))
    plan = planning.make_plan(comparison, plan, report=ignore)
    assert plan["models"]["b"]["overrides"] == ["model.intermediate_dim=400"]
    assert not any(planning.unplanned_models(comparison, stored(comparison)))
    # Models that are not compared now are kept, but not for another budget.
    assert set(stored(comparison)) == {"a", "b", "c"}
    longer = make_comparison(recipe, models=models, match=True, budget={"tokens": 800})
    assert stored(longer) == {}


def test_changed_files_are_refused(trainings, corpora, tmp_path):
    """Otherwise new runs would be compared with runs on other data."""
    train = tmp_path / "train.tsv"
    train.write_text(pathlib.Path(corpora["train"]).read_text(encoding="utf-8"), encoding="utf-8")
    training = {"steps": None, "epochs": 1, "deterministic": False}
    recipe, data = tmp_path / "recipe.yaml", {**corpora, "train": str(train)}
    recipe.write_text(make_recipe(data, training=training).to_yaml())
    settings = {"models": {"sinusoidal": {}}, "seeds": [1]}
    output = tmp_path / "out"

    def compare_now(**stages):
        comparison = make_comparison(recipe, **settings)
        compare(comparison, output, report=ignore, run_stage=Stages(trainings, **stages))

    compare_now()
    train.write_text("eins\tone\n" * 30)
    with pytest.raises(UserError, match=r"seed_1: .*data\.train\b"):
        compare_now()
    # Without the run, the plan is made again for the present data.
    before = json.loads((output / "plan.json").read_text())["tokens_per_step"]
    shutil.rmtree(output / "sinusoidal")
    with pytest.raises(ComparisonStopped):
        compare_now(exit_codes={"seed_1": 2})
    assert json.loads((output / "plan.json").read_text())["tokens_per_step"] != before


def test_unusable_output_directory_is_refused(recipe, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_grandmother.txt").write_text("Dear")
    for name, message in {
        "letters": "letters: this directory .*--output",
        "letters/to_grandmother.txt": r"to_grandmother\.txt: cannot be created \(File exists\)",
    }.items():
        with pytest.raises(UserError, match=message):
            compare(make_comparison(recipe), tmp_path / name, report=ignore, run_stage=ignore)
