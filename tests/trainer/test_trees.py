"""A recipe with dependency trees: files, training, interruption, export, commands."""

import functools
import json
import os
import pathlib
import shutil

import pytest

from keras_transformer.cli.main import main
from keras_transformer.data import DependencyTree, PairBatches, TreeBatches
from keras_transformer.export.manifest import read_manifest
from keras_transformer.inference import load
from keras_transformer.trainer import TrainingStopped
from keras_transformer.trainer.preparation import prepare_data
from keras_transformer.trainer.progress import TrainingReport
from keras_transformer.trainer.recipe_file import RecipeError
from keras_transformer.trainer.run_directory import RunDirectory
from keras_transformer.trainer.training_result import read_result
from tests.trainer.small_runs import Trainings, left_by, make_recipe, require_same

WORDS = ("rote", "Hunde", "schlafen", "gern", "im", "Haus")


def tree(number):
    """Returns a sentence of two to six words: a chain to the left or to the right, or a star."""
    words = tuple(WORDS[(number + place) % 6] for place in range(2 + number % 5))
    count = len(words)
    shapes = (range(count), [*range(2, count + 1), 0], [0] + [1] * (count - 1))
    return DependencyTree(words, tuple(shapes[number % 3]))


def write_trees(directory):
    """Writes files of training, validation and test; returns the recipe's `data`."""
    numbers = {"train": range(6, 66), "validation": range(6), "test": range(4)}
    files = {}
    for name, part in numbers.items():
        trees = [tree(number) for number in part]
        source, target = directory / f"{name}.conllu", directory / f"{name}.txt"
        source.write_text("".join(f"# sent_id = 1\n{each.conllu}\n\n" for each in trees))
        target.write_text("".join(f"{each.words[each.heads.index(0)]}\n" for each in trees))
        files[name] = [str(source), str(target)]
    return {**files, "test": {"small": files["test"]}}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("trees"))


SECTIONS = {
    "model": {"tree_positions": "both"},
    "training": {"steps": 6, "deterministic": False},
    "evaluation": {"every": 3, "sentences": 3},
    "checkpoints": {"every": 3},
    "tensorboard": {"every": 3, "attention": 1, "samples": 2},
}


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A finished run with its export."""
    directory = tmp_path_factory.mktemp("runs") / "trees"
    recipe = make_recipe(data, **SECTIONS, export={"enabled": True})
    return directory, Trainings().train(recipe, directory)


def test_training_evaluates_tests_and_exports(run):
    directory, said = run
    result = read_result(directory / "result.json")
    assert {"loss", "bleu"} <= set(result.validation)
    assert result.tests["small"].sentences == 4
    assert result.samples[0][:2] == ("rote Hunde", "rote")
    assert all("\t" not in sentence.source for sentence in result.tests["small"].worst)
    assert any("validation loss" in line for line in said)
    manifest = read_manifest(result.export)
    # A clean process has replayed these pairs.
    assert tree(0).conllu in manifest["golden"][0]["inputs"]["text"]
    assert manifest["model"]["tree_positions"] == "both"
    assert manifest["recipe"]["model"]["encoder_attention"] == "structural"


LOADED = functools.cache(load)


@pytest.fixture
def loaded_once(monkeypatch):
    """Commands share the models that they load."""
    monkeypatch.setattr("keras_transformer.inference.load", LOADED)


@pytest.mark.usefixtures("loaded_once")
def test_commands_take_conllu_files(run, data, capsys, tmp_path):
    directory, _ = run
    export = read_result(directory / "result.json").export
    source, target = data["test"]["small"]
    answers = []
    search = ["--beams", "1", "--max-length", "8"]
    for model, options in ((directory, search), (export, [])):
        assert main(["translate", str(model), "--input", source, "--scores", *options]) == 0
        answers.append(capsys.readouterr().out.splitlines())
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4
    assert main(["evaluate", str(export), "--source", source, "--reference", target, "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["sentences"] == 4
    assert evaluated["worst"][0]["source"] in {tree(number).text for number in range(4)}
    assert main(["score", str(export), "--source", source, "--target", target]) == 0
    scored = capsys.readouterr().out
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(tree(number).text + "\n" for number in range(4)))
    assert main(["score", str(export), "--source", str(plain), "--target", target]) == 0
    without_trees = capsys.readouterr().out
    assert len(scored.splitlines()) == len(without_trees.splitlines()) == 4
    assert scored != without_trees


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.slow
def test_command_takes_conllu_from_standard_input(run, data, capsys, tmp_path):
    """Lines without tabs are sentences without trees."""
    directory, _ = run
    parsed = pathlib.Path(data["test"]["small"][0]).read_text()
    (tmp_path / "input").write_text(f"{parsed}plain text\nand more")
    kept = os.dup(0)
    with (tmp_path / "input").open() as file:
        os.dup2(file.fileno(), 0)
    try:
        assert main(["translate", str(read_result(directory / "result.json").export)]) == 0
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert capsys.readouterr().out.count("\n") == 6


def test_interrupted_run_equals_an_uninterrupted_one(run, trainings, data, tmp_path):
    recipe = make_recipe(data, **SECTIONS)
    with pytest.raises(TrainingStopped):
        trainings.train(recipe, tmp_path / "stopped", stop_after=4)
    trainings.train(recipe, tmp_path / "stopped")
    require_same(tmp_path / "stopped", left_by(run[0]))


def prepared(recipe, directory):
    run = RunDirectory(directory)
    run.path.mkdir()
    return prepare_data(recipe, run, TrainingReport())


def test_model_with_trees_has_batches_of_trees(data, tmp_path):
    found = prepared(make_recipe(data, **SECTIONS), tmp_path / "trees")
    assert isinstance(found.batches, TreeBatches)
    assert isinstance(found.validation_batches, TreeBatches)
    assert found.validation_texts[0] == (tree(0).conllu, "rote")
    assert found.tests["small"][1] == (tree(1).conllu, tree(1).words[2])


def test_model_without_trees_has_batches_of_words(data, tmp_path):
    found = prepared(make_recipe(data), tmp_path / "plain")
    assert type(found.batches) is PairBatches
    assert found.tests["small"][0] == ("rote Hunde", "rote")


def test_format_can_be_given_by_the_recipe(data, tmp_path):
    source, target = data["train"]
    renamed = shutil.copy(source, tmp_path / "source.txt")
    files = {"train": [str(renamed), target], "format": "conllu"}
    recipe = make_recipe(files, model={"tree_positions": "absolute"})
    assert isinstance(prepared(recipe, tmp_path / "run").batches, TreeBatches)


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        ({"builtin": "dates"}, r"model\.tree_positions"),
        (
            {"train": ["a.conllu", "a.en"], "validation": ["b.de", "b.en"]},
            r"data\.validation.*b\.de",
        ),
        ({"train": ["a.tsv", "a.en"]}, r"a\.tsv"),
        ({"train": "a.tsv"}, r"data\.train"),
        ({"train": "a.conllu"}, r"a\.conllu"),
    ],
)
def test_data_without_trees_are_refused(data, facts):
    with pytest.raises(RecipeError, match=facts):
        make_recipe(data, model={"tree_positions": "both"})
