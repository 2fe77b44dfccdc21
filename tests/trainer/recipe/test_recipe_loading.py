"""Recipes from files and `--set`: every mistake has a location."""

import os
import pathlib

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipe_file import Override, RecipeError
from keras_transformer.trainer.recipes import load_recipe, recipe_difference, shipped_recipes
from tests.mistakes import assert_mistake
from tests.trainer.recipe.conftest import SMALL


def test_load_recipe_reads_a_file(write):
    recipe = load_recipe(write())
    assert (recipe.name, recipe.training.steps, recipe.model.settings["hidden_dim"]) == (
        "small",
        10,
        128,
    )
    assert load_recipe(pathlib.Path("recipe.yaml")) == recipe


def test_load_recipe_ignores_byte_order_mark_and_windows_line_ends(write):
    recipe = load_recipe(write())
    windows = b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()
    assert load_recipe(write(windows)) == recipe


def test_load_recipe_allows_an_empty_section(write):
    assert load_recipe(write(SMALL + "text:\n")) == load_recipe(write())


# Unknown keys, and the most similar key, also of another section or another program.
@pytest.mark.parametrize(
    ("line", "key", "fix"),
    [
        ("  warmup_stepz: 3", "training.warmup_stepz", "`training.warmup_steps`?"),
        ("  dropout: 0.1", "training.dropout", "`model.dropout`?"),
        ("  lr: 1", "training.lr", "`training.learning_rate`?"),
        ("  weight_decay: 0.1", "training.weight_decay", "`training.optimizer_options`?"),
        ("  zzz: 1", "training.zzz", "steps, epochs, "),
        ("trainin: {}", "trainin", "`training`?"),
        ("d_modle: 3", "d_modle", "`model.hidden_dim`?"),
        ("training.steps: 3", "training.steps", "`steps:` in a line below `training:`"),
        ("evaluation: {search: {beems: 3}}", "evaluation.search.beems",
         "`evaluation.search.beams`?"),
    ],
)  # fmt: skip
def test_unknown_key_is_answered_with_the_most_similar_key(load_error, line, key, fix):
    error = load_error(f"{SMALL}{line}\n")
    assert_mistake(error, key=key, where="recipe.yaml:9", fix=fix)


def test_all_mistakes_are_reported_in_the_order_of_the_file(load_error):
    text = SMALL.replace("steps: 10", "steps: x\n  xla: no") + "seed: -1\nmodell: {}\n"
    error = load_error(text, ["batches.tokens=0", "text.x=1"])
    assert [(mistake.where, mistake.argument) for mistake in error.mistakes] == [
        ("recipe.yaml:8", "training.steps"),
        ("recipe.yaml:9", "training.xla"),
        ("recipe.yaml:10", "seed"),
        ("recipe.yaml:11", "modell"),
        ("--set batches.tokens=0", "batches.tokens"),
        ("--set text.x=1", "text.x"),
    ]
    title, *lines = str(error).split("\n")
    assert "recipe.yaml" in title
    assert "6" in title
    assert [line.strip() for line in lines] == [str(mistake) for mistake in error.mistakes]


def test_mistake_of_two_keys_is_located_at_the_one_that_was_given(load_error):
    error = load_error(SMALL.replace("size: tiny", "size: tiny\n  num_heads: 3"))
    assert_mistake(error, "num_heads=3", where="recipe.yaml:7", key="model.hidden_dim", got=128)


def test_mistake_of_a_missing_key_is_located_at_its_section(load_error):
    error = load_error(SMALL.replace("steps: 10", "xla: true"))
    assert_mistake(error, "epochs", where="recipe.yaml:7", key="training.steps")
    assert_mistake(load_error(SMALL.replace("name: small\n", "")), where="recipe.yaml", key="name")


# Files that are not recipes.
@pytest.mark.parametrize(
    ("text", "where", "fact"),
    [
        ("", "recipe.yaml:1:1", "empty"),
        ("# nothing\n", "recipe.yaml:1:1", "empty"),
        ("- name\n", "recipe.yaml:1:1", "['name']"),
        ("name", "recipe.yaml:1:1", "'name'"),
        (f"{SMALL}name: b\n", "recipe.yaml:9:1", "line 1"),
        (f"{SMALL}  xla: [\n", "recipe.yaml:10:1", "expected the node content"),
        (SMALL.encode() + b"text: \xff\n", "recipe.yaml:9", "UTF-8 (invalid start byte)"),
        (SMALL.encode("utf-16"), "recipe.yaml:1", "UTF-8 (invalid start byte)"),
    ],
)
def test_files_that_are_not_recipes_are_refused_with_their_place(load_error, text, where, fact):
    assert_mistake(load_error(text), fact, where=where)


def test_missing_files_are_answered_with_the_recipes_of_the_package(write, tmp_path):
    write()
    with pytest.raises(UserError) as caught:
        load_recipe("nowhere/recipe.yaml")
    assert_mistake(caught.value, os.getcwd(), "quickstart", where="nowhere/recipe.yaml")
    with pytest.raises(UserError) as caught:
        load_recipe("quikstart")
    assert_mistake(caught.value, where="quikstart", fix="'quickstart'")
    with pytest.raises(UserError) as caught:
        load_recipe(tmp_path)
    assert_mistake(caught.value, "Is a directory", where=str(tmp_path))


def test_shipped_recipes_are_loaded_by_name():
    assert shipped_recipes() == ["quickstart"]
    assert load_recipe("quickstart").data.builtin == "dates"


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.learning_rate=1e-3", "training", "learning_rate", 0.001),
        ("training.xla=true", "training", "xla", True),
        ("data.test.flickr=[a.en,b.de]", "data", "test", {"flickr": ["a.en", "b.de"]}),
        ("data.cache=a=b", "data", "cache", "a=b"),
        ("data.cache=", "data", "cache", None),
        ("text.options={model: bpe}", "text", "options", {"model": "bpe"}),
        ("text.options.model=bpe", "text", "options", {"model": "bpe"}),
        ("model.dropout=0.3", "model", "dropout", 0.3),
        (Override("model.dropout", 0.3, "here"), "model", "dropout", 0.3),
    ],
)
def test_overrides_replace_values(write, override, section, key, value):
    others = ["data.builtin=null", "data.train=[a,b]"]
    recipe = load_recipe(write(), [*others, override])
    assert recipe.to_dictionary()[section][key] == value


def test_the_last_override_of_a_key_is_used(write):
    overrides = ["training.steps=3", "training={epochs: 2}", "training.epochs=4"]
    assert load_recipe(write(), overrides).training.epochs == 4


def test_overrides_do_not_change_the_values_that_they_were_given(write):
    options = {"model": "bpe"}
    load_recipe(write(), [Override("text.options", options, "here"), "text.options.model=unigram"])
    assert options == {"model": "bpe"}


@pytest.mark.parametrize(
    ("override", "key", "fact"),
    [
        ("training.stepz=3", "training.stepz", "`training.steps`?"),
        ("training.steps=0", "training.steps", "0"),
        ("training.steps", None, "key=value"),
        ("=3", None, "key=value"),
        ("training..steps=3", None, "key=value"),
        ("training.steps=[1", None, "']'"),
        ("training.steps.x=3", "steps", "10"),
        ("training=3", "training", "steps, epochs, optimizer"),
        ("data.tset.x=[a,b]", "data.tset", "`data.test`?"),
        ("data={train: a.txt}", "data.train", "a.txt holds text"),
    ],
)  # fmt: skip
def test_wrong_overrides_are_located_at_themselves(load_error, override, key, fact):
    assert_mistake(load_error(overrides=[override]), fact, key=key, where=f"--set {override}")


def test_wrong_options_of_a_variant_are_located_at_their_override(load_error):
    error = load_error(overrides=["model.attention_options.x=3"])
    assert_mistake(error, "scaled_dot_product", where="--set model.attention_options.x=3")


def test_mistake_of_two_keys_is_located_at_the_one_that_was_set(load_error):
    error = load_error(SMALL + "checkpoints: {average: 5}\n", ["checkpoints.keep=3"])
    assert_mistake(error, "keep=3", where="--set checkpoints.keep=3", key="checkpoints.average")


def test_keys_of_a_section_that_was_set_are_located_at_the_override(load_error):
    error = load_error(SMALL.replace("steps: 10", "steps: 0"), ["training={steps: -1}"])
    assert_mistake(error, where="--set training={steps: -1}", key="training.steps", got=-1)


@pytest.mark.parametrize("lines", ['"\\e[31m": 1', '"\\e[31m": 1\n"\\e[31m": 1', '"a\\nb": 1'])
def test_control_characters_in_a_recipe_are_not_printed(load_error, lines):
    error = load_error(f"{SMALL}{lines}\n")
    assert str(error).isprintable()
    assert "\\x1b[31m`" in str(error) or "a\\nb`" in str(error)


def test_recipe_error_has_one_object_for_each_mistake(write):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(), ["seed=-1", "batches.tokens=0"])
    assert [mistake.argument for mistake in caught.value.mistakes] == ["seed", "batches.tokens"]
    assert [mistake.got for mistake in caught.value.mistakes] == [-1, 0]


# The differences that are shown when resuming is refused.
def test_recipe_difference_has_dotted_keys_and_both_values(write):
    old = load_recipe(write())
    overrides = ["seed=2", "training.learning_rate=1e-3", "evaluation.search.beams=1"]
    overrides += ["text.options.model=bpe", "model.size=small", "tensorboard.profile=[1, 2]"]
    differences = recipe_difference(old, load_recipe(write(), overrides))
    assert sorted(differences) == sorted(
        [
            ("seed", 1, 2),
            ("model.hidden_dim", 128, 256),
            ("model.intermediate_dim", 256, 1024),
            ("model.num_encoder_layers", 4, 6),
            ("model.num_decoder_layers", 4, 6),
            ("training.learning_rate", None, 0.001),
            ("evaluation.search.beams", 4, 1),
            ("tensorboard.profile", None, [1, 2]),
            ("text.options.model", None, "bpe"),
        ]
    )
    assert str(differences[0]) == "seed was 1, is 2"
    assert recipe_difference(old, load_recipe(write())) == []
