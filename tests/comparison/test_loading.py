"""Comparisons in files and of recipes: what is understood, and what is refused."""

import pathlib
import re

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import load_comparison
from keras_transformer.trainer.recipes import load_recipe

COMPARE = pathlib.Path(__file__).parents[2] / "training" / "compare"
# Others that lie there are recipes.
PATHS = [path for path in sorted(COMPARE.glob("*.yaml")) if "\nmodels:" in path.read_text()]

FILE = """\
name: dates
recipe: quickstart
models:
  transformer: {}
  rotary: {attention: rotary, training.clip_norm: 2.0}
settings:
  evaluation.every: 7
budget: {tokens: 5000}
seeds: [4, 5]
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "comparison.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_file(write):
    comparison = load_comparison(write(FILE))
    assert comparison.seeds == (4, 5)
    assert comparison.budget.tokens == 5000
    recipes = comparison.recipes()
    assert recipes["transformer"].model.settings["attention"] == "scaled_dot_product"
    assert recipes["transformer"].training.clip_norm == 1.0
    assert recipes["rotary"].model.settings["attention"] == "rotary"
    assert recipes["rotary"].training.clip_norm == 2.0
    # The preset's and the recipe's own settings are still there.
    assert recipes["rotary"].model.settings["hidden_dim"] == 64
    for recipe in recipes.values():
        assert recipe.evaluation.every == 7
        assert not recipe.export.enabled
    assert comparison.chosen_quality(recipes["rotary"]) == "exact_match"


def test_options_hold_instead_of_the_files(write):
    comparison = load_comparison(
        write(FILE),
        models=["rotary", "shaw"],
        seeds=[9],
        seconds=3.5,
        overrides=["evaluation.every=8", "model.dropout=0.2"],
        match=True,
    )
    assert list(comparison.models) == ["rotary", "shaw"]
    assert comparison.models["shaw"] == {"attention": "shaw"}
    assert (comparison.budget.tokens, comparison.budget.seconds) == (None, 3.5)
    assert comparison.match
    recipe = comparison.recipe_of("rotary")
    assert (recipe.evaluation.every, recipe.model.settings["dropout"]) == (8, 0.2)
    assert recipe.training.clip_norm == 2.0


def test_a_recipe_with_built_in_variants(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(load_recipe("quickstart").to_yaml(), encoding="utf-8")
    comparison = load_comparison(path, models=["transformer", "learned"])
    assert comparison.name == "dates"
    assert comparison.seeds == (1, 2, 3)
    assert comparison.recipes()["learned"].model.settings["positions"] == "learned"


def test_the_recipe_of_a_file_is_beside_it(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(load_recipe("quickstart").to_yaml(), encoding="utf-8")
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / "comparison.yaml"
    path.write_text(FILE.replace("quickstart", "../mine.yaml"), encoding="utf-8")
    monkeypatch.chdir("/")
    assert load_comparison(path).recipe == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds:", "seedz:", ":9: `seedz` is not a key of a comparison. Did you mean `seeds`?"),
        ("[4, 5]", "[4, 4]", ":9: `seeds` must be a list of different numbers, as [1, 2]; got"),
        ("[4, 5]", "[]", ":9: `seeds` must be a list of different numbers"),
        ("tokens: 5000", "tokens: 0", ":8: `budget.tokens` must be null or a whole number of at"),
        ("{tokens: 5000}", "{token: 5}", "`budget.token` is not a key of a comparison. Did you"),
        (
            "tokens: 5000",
            "tokens: 5, seconds: 6",
            ":8: `budget.tokens` and `budget.seconds` exclude each other: got 5 and 6.0.",
        ),
        ("name: dates\n", "", "`name` is missing: say what the comparison is called"),
        ("recipe: quickstart\n", "", "`recipe` is missing: name the recipe that all models share"),
        ("  transformer: {}", "  ../up: {}", "`models` must be at most 100 letters, digits"),
        ("{}", "5", ":4: `models.transformer` must be a mapping from names to values; got 5."),
        ("seeds:", "quality: rouge\nseeds:", ":9: `quality` must be null or one of 'bleu', "),
        ("quickstart", "nowhere.yaml", "nowhere.yaml: no such file"),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_line(write, old, new, message):
    path = write(FILE.replace(old, new, 1))
    with pytest.raises(UserError, match=re.escape(message)):
        load_comparison(path)


def test_a_mistake_of_a_model_names_it(write):
    comparison = load_comparison(write(FILE.replace("attention: rotary", "atention: rotary")))
    with pytest.raises(UserError) as caught:
        comparison.recipes()
    assert str(caught.value).startswith("The model 'rotary' of dates: ")
    assert "`model.atention` is not a key of a recipe. Did you mean `model.attention`?" in str(
        caught.value
    )


def test_all_models_read_the_same_data(write):
    changed = FILE.replace("training.clip_norm: 2.0", "text.vocabulary_size: 3000")
    with pytest.raises(UserError) as caught:
        load_comparison(write(changed)).recipes()
    assert str(caught.value) == (
        "The model 'rotary' of dates must not change `text`: all models are compared on the same "
        "data, and 'transformer' has another one. Set it for all of them, in `settings` or with "
        "--set."
    )


def test_unknown_models_are_answered_with_those_there_are():
    with pytest.raises(UserError) as caught:
        load_comparison("quickstart", models=["transformer", "rotery"])
    assert str(caught.value).startswith("--models must be one of 'additive', 'alibi', ")
    assert str(caught.value).endswith("; got 'rotery'. Did you mean 'rotary'?")


def test_a_recipe_needs_models():
    message = "quickstart: is a recipe, which does not say what to compare. Name models with "
    with pytest.raises(UserError, match=re.escape(message + "--models, of transformer, ")):
        load_comparison("quickstart")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_comparisons_that_come_with_the_project_load(path):
    comparison = load_comparison(path)
    assert comparison.name == path.stem
    assert len(comparison.recipes()) >= 2
    assert len(comparison.seeds) >= 2
    assert f"`{path.name}`" in (COMPARE / "README.md").read_text(encoding="utf-8")
