"""The recipes in training/recipes: they load, and every key has a comment."""

import pathlib
import re

import pytest

import keras_transformer.trainer
from keras_transformer.trainer.recipes import load_recipe

RECIPES = pathlib.Path(__file__).parents[3] / "training" / "recipes"
PACKAGE = pathlib.Path(keras_transformer.trainer.__file__).parent
PATHS = sorted(RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recipe_loads_and_has_the_name_of_its_file(path):
    recipe = load_recipe(path)
    assert recipe.name == {"quickstart": "dates"}.get(path.stem, path.stem)
    assert recipe.export.to == "saved_models"


@pytest.mark.parametrize(
    "path", [*PATHS, *sorted(RECIPES.parent.glob("compare/*.yaml"))], ids=lambda path: path.stem
)
def test_every_key_has_a_comment(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    sections = []
    for previous, line in zip(["", *lines], lines, strict=False):
        if re.match(r"\w+:$", line):
            sections.append(line)
        elif re.match(r" *[\w.]+:", line):
            assert "  # " in line or previous.strip().startswith("# "), line
    assert len(sections) >= (6 if "\ndata:" in "\n".join(lines) else 1)


def test_training_readme_lists_all_recipes():
    readme = (RECIPES.parent / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+\.yaml)`", readme, re.MULTILINE)) == {
        path.name for path in PATHS
    }


def test_quickstart_is_the_recipe_of_the_package():
    shipped = PACKAGE / "shipped" / "quickstart.yaml"
    assert (RECIPES / "quickstart.yaml").read_bytes() == shipped.read_bytes()
    assert not shipped.is_symlink()  # a wheel contains the file itself


def test_wmt_recipes_have_the_numbers_of_the_paper():
    base, big = (load_recipe(RECIPES / f"wmt14_en_de_{size}.yaml") for size in ("base", "big"))
    assert (base.training.steps, big.training.steps) == (100_000, 300_000)
    assert (base.checkpoints.average, big.checkpoints.average) == (5, 20)
    assert (base.model.settings["dropout"], big.model.settings["dropout"]) == (0.1, 0.3)
    for recipe in (base, big):
        assert recipe.training.learning_rate is None
        assert recipe.training.optimizer_options == {
            "beta_1": 0.9,
            "beta_2": 0.98,
            "epsilon": 1e-9,
        }
        assert recipe.text.vocabulary_size == 37_000
        assert recipe.model.settings["normalize_first"] is False
        search = recipe.evaluation.search_settings()
        assert (search.beams, search.length_penalty) == (4, 0.6)
