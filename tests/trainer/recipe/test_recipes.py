"""The recipes in training/recipes: they load, and each of their keys says why."""

import ast
import pathlib
import re

import keras_transformer.trainer.recipe
import pytest

from keras_transformer.trainer.recipes import load_recipe

RECIPES = pathlib.Path(__file__).parents[3] / "training" / "recipes"
PACKAGE = pathlib.Path(keras_transformer.trainer.recipe.__file__).parent
PATHS = sorted(RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recipes_load_and_are_named_for_their_files(path):
    recipe = load_recipe(path)
    assert recipe.name == {"quickstart": "dates"}.get(path.stem, path.stem)
    assert recipe.export.to == "saved_models"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_key_says_why(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    sections = []
    for previous, line in zip(["", *lines], lines, strict=False):
        if re.match(r"\w+:$", line):
            sections.append(line)
        elif re.match(r" *\w+:", line):
            assert "  # " in line or previous.strip().startswith("# "), line
    assert len(sections) >= 6


def test_readme_names_them_all():
    readme = (RECIPES.parent / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+\.yaml)`", readme, re.MULTILINE)) == {
        path.name for path in PATHS
    }


def test_the_shipped_recipe_is_the_one_that_is_read_here():
    shipped = PACKAGE / "shipped" / "quickstart.yaml"
    assert (RECIPES / "quickstart.yaml").read_bytes() == shipped.read_bytes()
    assert not shipped.is_symlink()  # a wheel takes the file itself


def test_the_papers_numbers():
    base, big = (load_recipe(RECIPES / f"wmt14_en_de_{size}.yaml") for size in ("base", "big"))
    assert (base.training.steps, big.training.steps) == (100_000, 300_000)
    assert (base.checkpoints.average, big.checkpoints.average) == (5, 20)
    assert (base.model.settings["dropout"], big.model.settings["dropout"]) == (0.1, 0.3)
    for recipe in (base, big):
        assert recipe.training.learning_rate is None
        assert recipe.text.vocabulary_size == 37_000
        assert recipe.model.settings["normalize_first"] is False
        search = recipe.evaluation.search_settings()
        assert (search.beams, search.length_penalty) == (4, 0.6)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.stem)
def test_tensorflow_is_not_needed_before_a_recipe_is_checked(path):
    light = {"checks", "errors", "printable", "trainer"}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("keras_transformer"):
            assert node.module.split(".")[1] in light
        elif isinstance(node, ast.Import):
            assert not {"keras", "tensorflow"} & {alias.name for alias in node.names}
