"""Comparisons from files and from recipes."""

import pathlib

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import load_comparison
from keras_transformer.trainer.recipes import load_recipe

COMPARE = pathlib.Path(__file__).parents[3] / "training" / "compare"
# The other files there are recipes.
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


def test_file_sets_models_budget_and_seeds(write):
    comparison = load_comparison(write(FILE))
    assert comparison.seeds == (4, 5)
    assert comparison.budget.tokens == 5000
    recipes = comparison.recipes()
    assert recipes["transformer"].model.settings["attention"] == "scaled_dot_product"
    assert recipes["transformer"].training.clip_norm == 1.0
    assert recipes["rotary"].model.settings["attention"] == "rotary"
    assert recipes["rotary"].training.clip_norm == 2.0
    # The other settings are those of the recipe.
    assert recipes["rotary"].model.settings["hidden_dim"] == 64
    for recipe in recipes.values():
        assert recipe.evaluation.every == 7
        assert not recipe.export.enabled
    assert comparison.chosen_quality(recipes["rotary"]) == "exact_match"


def test_options_replace_values_of_the_file(write):
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


def test_recipe_with_built_in_variants_is_a_comparison(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(load_recipe("quickstart").to_yaml(), encoding="utf-8")
    comparison = load_comparison(path, models=["transformer", "learned"])
    assert comparison.name == "dates"
    assert comparison.seeds == (1, 2, 3)
    assert comparison.recipes()["learned"].model.settings["positions"] == "learned"


def test_path_of_the_recipe_is_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(load_recipe("quickstart").to_yaml(), encoding="utf-8")
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / "comparison.yaml"
    path.write_text(FILE.replace("quickstart", "../mine.yaml"), encoding="utf-8")
    monkeypatch.chdir("/")
    assert load_comparison(path).recipe == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("seeds:", "seedz:", (":9", "`seedz`", "`seeds`")),
        ("[4, 5]", "[4, 4]", (":9", "`seeds`", "[4, 4]")),
        ("[4, 5]", "[]", (":9", "`seeds`", "[]")),
        ("tokens: 5000", "tokens: 0", (":8", "`budget.tokens`", "null", "at least 1", "got 0")),
        ("{tokens: 5000}", "{token: 5}", ("`budget.token`", "`budget.tokens`")),
        ("tokens: 5000", "tokens: 5, seconds: 6", (":8", "`budget.tokens`", "seconds=6.0")),
        ("name: dates\n", "", ("`name`", "missing")),
        ("recipe: quickstart\n", "", ("`recipe`", "missing")),
        ("  transformer: {}", "  ../up: {}", ("`models`", "'../up'")),
        ("{}", "5", (":4", "`models.transformer`", "got 5")),
        ("seeds:", "quality: no_such\nseeds:", (":9", "`quality`", "null", "'bleu'", "'loss'")),
        ("quickstart", "nowhere.yaml", ("nowhere.yaml: no such file",)),
    ],
)
def test_mistake_in_a_file_is_reported_with_its_line(write, old, new, facts):
    path = write(FILE.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_comparison(path)
    for fact in facts:
        assert fact in str(caught.value)


def test_mistake_of_a_model_names_the_model(write):
    comparison = load_comparison(write(FILE.replace("attention: rotary", "atention: rotary")))
    with pytest.raises(UserError) as caught:
        comparison.recipes()
    for fact in ("'rotary' of dates", "`model.atention`", "`model.attention`"):
        assert fact in str(caught.value)


def test_models_with_different_data_are_refused(write):
    changed = FILE.replace("training.clip_norm: 2.0", "text.vocabulary_size: 3000")
    with pytest.raises(UserError, match=r"'transformer' and 'rotary' of dates .*`text`"):
        load_comparison(write(changed)).recipes()


def test_unknown_model_is_reported_with_all_known_ones():
    with pytest.raises(UserError) as caught:
        load_comparison("quickstart", models=["transformer", "rotery"])
    for fact in ("--models", "'additive'", "'alibi'", "'rotery'", "Did you mean 'rotary'?"):
        assert fact in str(caught.value)


def test_recipe_without_models_is_refused():
    with pytest.raises(UserError, match=r"quickstart: .*--models: transformer, "):
        load_comparison("quickstart")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_comparison_of_the_project_loads_and_is_described(path):
    comparison = load_comparison(path)
    assert comparison.name == path.stem
    assert len(comparison.recipes()) >= 2
    assert len(comparison.seeds) >= 2
    assert f"`{path.name}`" in (COMPARE / "README.md").read_text(encoding="utf-8")
