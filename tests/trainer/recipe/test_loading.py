"""From a file and `--set` to a recipe; every mistake has its line."""

import os
import pathlib

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipe_file import RecipeError
from keras_transformer.trainer.recipes import load_recipe, recipe_difference, shipped_recipes
from tests.trainer.recipe.conftest import SMALL


def test_a_file_is_loaded(write):
    recipe = load_recipe(write())
    assert (recipe.name, recipe.training.steps, recipe.model.settings["hidden_dim"]) == (
        "small",
        10,
        128,
    )
    assert load_recipe(pathlib.Path("recipe.yaml")) == recipe


def test_byte_order_mark_and_windows_lines_make_no_difference(write):
    recipe = load_recipe(write())
    windows = b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()
    assert load_recipe(write(windows)) == recipe


def test_a_section_may_be_empty(write):
    assert load_recipe(write(SMALL + "text:\n")) == load_recipe(write())


# BAD_INPUTS 33: the nearest key, also where another program or another section has it.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  warmup_stepz: 3", "`training.warmup_stepz` is not a key of a recipe. Did you mean "
         "`training.warmup_steps`?"),
        ("  dropout: 0.1", "`training.dropout` is not a key of a recipe. Did you mean "
         "`model.dropout`?"),
        ("  lr: 1", "`training.lr` is not a key of a recipe. Did you mean "
         "`training.learning_rate`?"),
        ("  zzz: 1", "`training.zzz` is not a key of a recipe. Known here: steps, epochs, "),
        ("trainin: {}", "`trainin` is not a key of a recipe. Did you mean `training`?"),
        ("d_modle: 3", "`d_modle` is not a key of a recipe. Did you mean `model.hidden_dim`?"),
        ("training.steps: 3", "`training.steps` is not a key of a recipe. Write `steps:` in a line "
         "below `training:`."),
        ("evaluation: {search: {beems: 3}}", "`evaluation.search.beems` is not a key of a recipe. "
         "Did you mean `evaluation.search.beams`?"),
    ],
)  # fmt: skip
def test_unknown_keys_get_the_nearest(refusal, line, expected):
    assert refusal(f"{SMALL}{line}\n").startswith(f"recipe.yaml:9: {expected}")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(refusal):
    text = SMALL.replace("steps: 10", "steps: x\n  xla: no") + "seed: -1\nmodell: {}\n"
    assert refusal(text, ["batches.tokens=0", "text.x=1"]).split("\n") == [
        "recipe.yaml has 6 mistakes:",
        "  recipe.yaml:8: `training.steps` must be null or a whole number of at least 1; got 'x'.",
        "  recipe.yaml:9: `training.xla` must be True or False; got 'no'.",
        "  recipe.yaml:10: `seed` must be a whole number of at least 0; got -1.",
        "  recipe.yaml:11: `modell` is not a key of a recipe. Did you mean `model`?",
        "  --set batches.tokens=0: `batches.tokens` must be a whole number of at least 1; got 0.",
        "  --set text.x=1: `text.x` is not a key of a recipe. Known here: tokenizer, "
        "vocabulary_size, shared, options, maximum_passages, sampling, sampled.",
    ]


def test_a_mistake_of_two_keys_stands_where_one_was_given(refusal):
    text = SMALL.replace("preset: tiny", "preset: tiny\n  num_heads: 3")
    assert refusal(text).startswith(
        "recipe.yaml:7: `model.hidden_dim` must be divisible by `model.num"
    )


def test_a_mistake_of_what_is_missing_stands_at_its_section(refusal):
    assert refusal(SMALL.replace("steps: 10", "xla: true")).startswith(
        "recipe.yaml:7: One of `training.steps` and `training.epochs` must be given; got neither."
    )
    assert refusal(SMALL.replace("name: small\n", "")).startswith("recipe.yaml: `name` is missing")


# BAD_INPUTS 38.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "recipe.yaml:1:1: the recipe is empty."),
        ("# nothing\n", "recipe.yaml:1:1: the recipe is empty."),
        ("- name\n", "recipe.yaml:1:1: a recipe must be lines of 'key: value'; got ['name']."),
        ("name", "recipe.yaml:1:1: a recipe must be lines of 'key: value'; got 'name'."),
        (f"{SMALL}name: b\n", "recipe.yaml:9:1: `name` is there already, in line 1."),
        (f"{SMALL}  xla: [\n", "recipe.yaml:10:1: expected the node content, but found "),
        (SMALL.encode() + b"text: \xff\n", "recipe.yaml:9: not UTF-8 (invalid start byte)."),
        (SMALL.encode("utf-16"), "recipe.yaml:1: not UTF-8 (invalid start byte)."),
    ],
)
def test_files_that_are_no_recipes(refusal, text, expected):
    assert refusal(text).startswith(expected)


def test_missing_files(write, tmp_path):
    write()
    with pytest.raises(UserError) as caught:
        load_recipe("nowhere/recipe.yaml")
    assert str(caught.value) == (
        f"nowhere/recipe.yaml: no such file (the current directory is {os.getcwd()}), and no "
        "recipe of the package, which has quickstart."
    )
    with pytest.raises(UserError, match=r"which has quickstart\. Did you mean 'quickstart'\?$"):
        load_recipe("quikstart")
    with pytest.raises(UserError, match=r": cannot be read \(Is a directory\)\.$"):
        load_recipe(tmp_path)


def test_shipped_recipes_have_names():
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
    ],
)
def test_values_are_set_anew(write, override, section, key, value):
    others = ["data.builtin=null", "data.train=[a,b]"]
    recipe = load_recipe(write(), [*others, override])
    assert recipe.to_dictionary()[section][key] == value


def test_the_last_override_holds(write):
    overrides = ["training.steps=3", "training={epochs: 2}", "training.epochs=4"]
    assert load_recipe(write(), overrides).training.epochs == 4


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.stepz=3", "`training.stepz` is not a key of a recipe. Did you mean `training."),
        ("training.steps=0", "`training.steps` must be null or a whole number of at least 1; got"),
        ("training.steps", "must look like key=value, as training.steps=100."),
        ("=3", "must look like key=value"),
        ("training..steps=3", "must look like key=value"),
        ("training.steps=[1", "expected ',' or ']', but got '<stream end>'"),
        ("training.steps.x=3", "`steps` has no keys; it is 10."),
        ("training=3", "`training` must be a section with keys such as steps, epochs, optimizer"),
        ("model.attention_options.x=3", "`model.attention_options` of 'scaled_dot_product' do not"),
        ("data.tset.x=[a,b]", "`data.tset` is not a key of a recipe. Did you mean `data.test`?"),
        ("data={train: a.txt}", "`data.train` must hold source and target for the task "
         "'translation'; a.txt holds text. Name two files, such as [train.en, train.de]; "),
    ],
)  # fmt: skip
def test_wrong_overrides_name_themselves(refusal, override, expected):
    assert refusal(overrides=[override]).startswith(f"--set {override}: {expected}")


def test_of_two_keys_that_disagree_the_one_that_was_set_is_named(refusal):
    said = refusal(SMALL + "checkpoints: {average: 5}\n", ["checkpoints.keep=3"])
    assert said.startswith("--set checkpoints.keep=3: `checkpoints.average` must not be more than")


def test_a_section_set_anew_forgets_its_lines(refusal):
    said = refusal(SMALL.replace("steps: 10", "steps: 0"), ["training={steps: -1}"])
    assert said.startswith("--set training={steps: -1}: `training.steps` must be ")


@pytest.mark.parametrize("lines", ['"\\e[31m": 1', '"\\e[31m": 1\n"\\e[31m": 1', '"a\\nb": 1'])
def test_a_recipe_of_others_cannot_write_to_the_terminal(refusal, lines):
    said = refusal(f"{SMALL}{lines}\n")
    assert said.isprintable()
    assert "\\x1b[31m`" in said or "a\\nb`" in said


def test_mistakes_can_be_counted(write):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(), ["seed=-1", "batches.tokens=0"])
    assert len(caught.value.mistakes) == 2


# BAD_INPUTS 39: what a refused resumption shows.
def test_difference_is_flat(write):
    old = load_recipe(write())
    overrides = ["seed=2", "training.learning_rate=1e-3", "evaluation.search.beams=1"]
    overrides += ["text.options.model=bpe", "model.preset=small", "tensorboard.profile=[1, 2]"]
    assert recipe_difference(old, load_recipe(write(), overrides)) == [
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
    assert recipe_difference(old, load_recipe(write())) == []
