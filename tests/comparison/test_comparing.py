"""Whole comparisons of small models: planned, trained, stopped, resumed, compared."""

import json
import pathlib
import shutil
import signal

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import Comparison, compare, planning
from keras_transformer.analysis.compare.one_run import measure_run
from keras_transformer.analysis.compare.run_place import RunPlace
from keras_transformer.analysis.compare.running import ComparisonStopped, plan_comparison
from keras_transformer.trainer.signals import TrainingFailed, TrainingStopped
from tests import phrases
from tests.trainer.small_runs import Spy, make_recipe

# A point of the curve with each update, so that its speed is known.
SETTINGS = {"training.schedule": "constant", "tensorboard.every": 1}
WITHOUT_TESTS = {**SETTINGS, "data.test": {}}
MODELS = {"sinusoidal": {}, "rotary": {"attention": "rotary"}}


@pytest.fixture(scope="module")
def recipe(corpora, tmp_path_factory):
    """The path of a recipe with a test set of a distance and one without."""
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
    # Without tests: what they take is in a test of its own.
    values = {
        "name": "phrases",
        "recipe": str(recipe),
        "models": MODELS,
        "settings": WITHOUT_TESTS,
        "budget": {"tokens": 400},
        "seeds": [1, 2],
    }
    return Comparison(**{**values, **changes})


class Steps:
    """Does the steps in this process, with the exit codes of the command; keeps which they were."""

    def __init__(self, after=None):
        self.done = []
        self._after = after

    def __call__(self, step, directory):
        self.done.append((step, directory))
        if step == "plan":
            plan_comparison(directory, say=lambda text: None)
            return 0
        try:
            measure_run(RunPlace(directory), Spy(self._after))
        except TrainingStopped as stopped:
            return stopped.exit_code
        except TrainingFailed:
            return 1
        return 0


def runs(steps):
    return ["/".join(path.parts[-2:]) for step, path in steps.done if step == "run"]


def silently(text):
    """For what is said."""


@pytest.fixture
def compared(trainings, recipe, tmp_path):
    """A comparison of two models with two seeds, its directory and its results."""
    steps = Steps()
    results = compare(make_comparison(recipe), tmp_path / "out", say=silently, step=steps)
    return steps, tmp_path / "out", results


def test_two_models_two_seeds(compared, recipe, trainings):
    steps, output, results = compared
    names = ["sinusoidal/seed_1", "rotary/seed_1", "sinusoidal/seed_2", "rotary/seed_2"]
    assert [step for step, _ in steps.done] == ["plan", *["run"] * 4]
    assert runs(steps) == names
    sinusoidal, rotary = results.standings
    assert (sinusoidal.model, rotary.model) == ("sinusoidal", "rotary")
    assert results.missing == ()
    for standing in results.standings:
        assert standing.seeds == (1, 2)
        assert len(standing.measures["loss"].values) == 2
        assert standing.measures["peak_memory_mb"].mean > 100
        assert standing.measures["tokens_per_second"].mean > 0
    # The same budget, to half an update, for all.
    plan = json.loads((output / "plan.json").read_text())
    assert sinusoidal.updates == rotary.updates == round(400 / plan["tokens_per_update"]) > 1
    # Mechanisms without weights of their own, and the same sizes.
    assert sinusoidal.parameters == rotary.parameters == plan["models"]["rotary"]["parameters"]
    for name in ("comparison.md", "comparison.json", "comparison.png"):
        assert (output / name).stat().st_size > 100

    # Nothing is repeated; what is new is trained.
    steps = Steps()
    again = compare(make_comparison(recipe), output, say=silently, step=steps)
    assert steps.done == []
    assert again == results
    more = make_comparison(recipe, seeds=[3, 1], models={"rotary": MODELS["rotary"]})
    compare(more, output, say=silently, step=steps)
    assert runs(steps) == ["rotary/seed_3"]

    # Another recipe is no reason to train on in the same place.
    changed = make_comparison(recipe, settings={**WITHOUT_TESTS, "training.clip_norm": 3.0})
    with pytest.raises(UserError, match=r"sinusoidal/seed_1: was begun with another recipe: .*out"):
        compare(changed, output, say=silently, step=steps)


def test_a_run_that_is_stopped_goes_on(trainings, recipe, tmp_path):
    comparison = make_comparison(recipe, models={"sinusoidal": {}}, seeds=[1])
    output = tmp_path / "out"
    stop = {1: lambda: trainings._stop_request.request(signal.SIGTERM)}
    with pytest.raises(ComparisonStopped) as caught:
        compare(comparison, output, say=silently, step=Steps(after=stop))
    assert caught.value.exit_code == 143
    assert not (output / "comparison.md").exists()
    steps = Steps()
    results = compare(comparison, output, say=silently, step=steps)
    assert runs(steps) == ["sinusoidal/seed_1"]  # and no plan again
    result = json.loads((output / "sinusoidal/seed_1/run/result.json").read_text())
    assert result["resumed_from"] == 1
    assert results.standings[0].updates == result["steps"]


def test_a_run_that_fails_is_left_out_and_told(trainings, recipe, tmp_path):
    def fail():
        raise TrainingFailed("The loss is not finite.")

    steps = Steps()

    def step(kind, directory):
        steps._after = {1: fail} if directory.name == "seed_2" else None
        return steps(kind, directory)

    said = []
    comparison = make_comparison(recipe, models={"sinusoidal": {}})
    results = compare(comparison, tmp_path / "out", say=said.append, step=step)
    assert results.missing == (("sinusoidal", 2),)
    assert results.standings[0].seeds == (1,)
    assert said[-1].endswith("seed_2: this run has failed, and is left out. The others go on.")


def test_test_sets_give_quality_by_distance_and_by_length(trainings, recipe, tmp_path):
    comparison = make_comparison(recipe, models={"sinusoidal": {}}, seeds=[1], settings=SETTINGS)
    results = compare(comparison, tmp_path / "out", say=silently, step=Steps())
    (standing,) = results.standings
    assert [distance for distance, _ in standing.by_distance] == [4]
    assert list(standing.tests) == ["others"]
    assert standing.measures["longest_solved"].values == (0,)
    lengths = [len(source.encode()) for source, _ in phrases.make_pairs()[200:212]]
    assert standing.by_length[0][0] == min(lengths)
    assert standing.by_length[-1][1] == max(lengths)
    assert results.quality == "bleu"


def test_models_of_other_sizes_are_refused_or_matched(recipe, tmp_path, monkeypatch):
    models = {"sinusoidal": {}, "wide": {"intermediate_dim": 400}}
    steps = Steps()
    with pytest.raises(UserError) as caught:
        compare(make_comparison(recipe, models=models), tmp_path / "out", say=silently, step=steps)
    assert "change its `model.intermediate_dim`. Or have them matched" in str(caught.value)
    assert runs(steps) == []
    # Of a budget in seconds, how fast each model is decides.
    monkeypatch.setattr(planning._Planner, "_updates_per_second", lambda self, recipe: 2.0)
    comparison = make_comparison(recipe, models=models, match=True, budget={"seconds": 6})
    plan = planning.make_plan(comparison, say=silently)
    assert plan["models"]["wide"]["overrides"] == ["model.intermediate_dim=32"]
    assert plan["models"]["wide"]["updates"] == 12
    parameters = [entry["parameters"] for entry in plan["models"].values()]
    assert parameters[0] == parameters[1]


def test_another_first_model_has_the_others_matched_anew(recipe):
    comparison = make_comparison(recipe, models={"a": {}, "b": {}}, match=True)
    plan = planning.make_plan(comparison, say=silently)
    models = {"c": {"intermediate_dim": 400}, "b": {}}
    comparison = make_comparison(recipe, models=models, match=True)
    fingerprints = planning.data_fingerprints(comparison.recipes())
    assert not planning.is_planned(comparison, comparison.recipes(), fingerprints, plan)
    plan = planning.make_plan(comparison, plan, say=silently)
    assert plan["models"]["b"]["overrides"] == ["model.intermediate_dim=400"]
    assert planning.is_planned(comparison, comparison.recipes(), fingerprints, plan)


def test_files_that_have_changed_are_told(trainings, corpora, tmp_path):
    """Before another model or seed is trained on other data, and compared with the old ones."""
    train = tmp_path / "train.tsv"
    train.write_text(pathlib.Path(corpora["train"]).read_text(encoding="utf-8"), encoding="utf-8")
    training = {"steps": None, "epochs": 1, "deterministic": False}
    recipe, data = tmp_path / "recipe.yaml", {**corpora, "train": str(train)}
    recipe.write_text(make_recipe(data, training=training).to_yaml())
    settings = {"models": {"sinusoidal": {}}, "seeds": [1], "settings": SETTINGS}
    compare(make_comparison(recipe, **settings), tmp_path / "out", say=silently, step=Steps())
    train.write_text("eins\tone\n" * 30)
    with pytest.raises(UserError, match=r"seed_1: was begun with other files for data\.train than"):
        compare(make_comparison(recipe, **settings), tmp_path / "out", say=silently, step=Steps())
    # The run is had again, with as many updates as there are for the data of now.
    before = json.loads((tmp_path / "out" / "plan.json").read_text())["tokens_per_update"]
    shutil.rmtree(tmp_path / "out" / "sinusoidal")
    compare(make_comparison(recipe, **settings), tmp_path / "out", say=silently, step=Steps())
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["tokens_per_update"] != before


def test_places_that_cannot_be_used_are_refused(recipe, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_grandmother.txt").write_text("Dear")
    for place, message in {
        "letters": "holds something that is not a comparison. Name another directory",
        "letters/to_grandmother.txt": r"cannot be made \(File exists\)",
    }.items():
        with pytest.raises(UserError, match=message):
            compare(make_comparison(recipe), tmp_path / place, say=silently, step=Steps())
