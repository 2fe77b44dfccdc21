"""Sections of a recipe: defaults, round trips, and values of the wrong kind."""

import dataclasses
import json

import pytest

from keras_transformer.decoding import SearchSettings
from keras_transformer.models import (
    ConvolutionalSeq2SeqConfig,
    LanguageModelConfig,
    RecurrentSeq2SeqConfig,
    TransformerConfig,
)
from keras_transformer.text import SpecialIds
from keras_transformer.trainer.config import Recipe, TrainingSection
from keras_transformer.trainer.recipe_file import RecipeError
from keras_transformer.trainer.recipes import load_recipe
from tests.mistakes import assert_mistake
from tests.trainer.recipe.examples import LANGUAGE_MODEL, TRANSLATION, changed, recipe_error


@pytest.mark.parametrize(
    "dictionary",
    [
        TRANSLATION,
        LANGUAGE_MODEL,
        changed(
            TRANSLATION,
            data={"test": {"one": "c.tsv", "two": ["d.en", "d.de"]}, "cache": "caches"},
            text={"tokenizer": "bytes", "shared": True},
            model={"attention": "shaw", "attention_options": {"max_distance": 4}},
            training={"optimizer": "adamw", "optimizer_options": {"weight_decay": 0.1}},
            evaluation={"search": {"forbidden_ids": [5, 6]}},
            tensorboard={"profile": [3, 5]},
        ),
        changed(TRANSLATION, model={"kind": "recurrent", "size": "tiny", "cell": "gru"}),
        changed(
            LANGUAGE_MODEL,
            data={"train": "a.jsonl", "keys": {"text": "body"}},
            batches={"packed": True},
        ),
    ],
)
def test_recipe_survives_json_and_yaml(dictionary, tmp_path):
    recipe = Recipe.from_dictionary(dictionary)
    resolved = recipe.to_dictionary()
    assert json.loads(json.dumps(resolved)) == resolved
    assert Recipe.from_dictionary(resolved) == recipe
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(path) == recipe
    assert load_recipe(path).to_yaml() == recipe.to_yaml()


def test_to_dictionary_returns_a_copy():
    recipe = Recipe.from_dictionary(TRANSLATION)
    resolved = recipe.to_dictionary()
    resolved["model"]["attention_options"]["x"] = 1
    resolved["evaluation"]["search"]["beams"] = 7
    resolved["training"]["optimizer_options"]["beta_1"] = 0.5
    assert recipe == Recipe.from_dictionary(TRANSLATION)


def test_defaults_are_those_of_the_paper():
    recipe = Recipe.from_dictionary(TRANSLATION)
    assert recipe.training.optimizer_options == {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}
    assert (recipe.training.warmup_steps, recipe.training.label_smoothing) == (4000, 0.1)
    assert recipe.checkpoints.average == 5


def test_sections_are_frozen():
    recipe = Recipe.from_dictionary(TRANSLATION)
    for frozen in (recipe, recipe.training, recipe.model):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.seed = 2


def test_section_can_be_created_alone():
    assert TrainingSection(steps=5, warmup_steps=2).steps == 5
    with pytest.raises(RecipeError) as caught:
        TrainingSection(steps=0, xla="no")
    assert [mistake.argument for mistake in caught.value.mistakes] == [
        "training.steps",
        "training.xla",
    ]


# The model.


def test_size_is_replaced_by_its_settings():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"size": "big", "dropout": 0.2}))
    assert recipe.model.settings["hidden_dim"] == 1024
    assert recipe.model.settings["dropout"] == 0.2
    assert "size" not in recipe.to_dictionary()["model"]


def test_make_config_returns_the_config_of_the_task():
    model = Recipe.from_dictionary(changed(TRANSLATION, model={"size": "tiny"})).model
    assert model.make_config("translation", 300) == TransformerConfig.from_size(
        "tiny", vocabulary_size=300
    )
    model = Recipe.from_dictionary(changed(LANGUAGE_MODEL, model={"num_layers": 2})).model
    assert model.make_config("language_model", 300, is_packed=True) == LanguageModelConfig(
        vocabulary_size=300, num_layers=2, is_packed=True
    )


def test_make_config_sets_special_ids():
    model = Recipe.from_dictionary(TRANSLATION).model
    ids = SpecialIds(padding=7, unknown=6, start=5, end=4)
    assert model.make_config("translation", 300, special_ids=ids).special_ids == ids


@pytest.mark.parametrize(
    ("kind", "config_class"),
    [("recurrent", RecurrentSeq2SeqConfig), ("convolutional", ConvolutionalSeq2SeqConfig)],
)
def test_size_depends_on_the_kind_of_model(kind, config_class):
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"kind": kind, "size": "tiny"}))
    config = recipe.model.make_config("translation", 300, target_vocabulary_size=300)
    expected = config_class.from_size("tiny", vocabulary_size=300, target_vocabulary_size=300)
    assert config == expected
    assert recipe.to_dictionary()["model"]["kind"] == kind
    assert "num_heads" not in recipe.to_dictionary()["model"]


def test_copying_and_coverage_are_settings_of_a_recurrent_model():
    settings = {"copies": True, "coverage_attention": True, "coverage_weight": 1.0}
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"kind": "recurrent", **settings}))
    config = recipe.model.make_config("translation", 300)
    assert config == RecurrentSeq2SeqConfig(vocabulary_size=300, **settings)
    error = recipe_error(TRANSLATION, model={"coverage_attention": True})
    assert_mistake(error, "'transformer'", key="model.coverage_attention")


def test_default_kind_is_transformer():
    assert Recipe.from_dictionary(TRANSLATION).model.kind == "transformer"
    assert Recipe.from_dictionary(LANGUAGE_MODEL).model.kind == "transformer"


def test_settings_of_another_kind_of_model_are_refused():
    error = recipe_error(TRANSLATION, model={"kind": "recurrent", "num_heads": 8})
    assert_mistake(error, "'recurrent'", "hidden_dim, ", key="model.num_heads", fix="`model.kind`")
    error = recipe_error(TRANSLATION, model={"kind": "recurrent", "attention": "alibi"})
    assert_mistake(error, "alibi", key="model.attention")
    error = recipe_error(LANGUAGE_MODEL, model={"kind": "recurrent"})
    assert_mistake(error, key="model.kind", expected="'transformer'", got="recurrent")
    assert_mistake(recipe_error(LANGUAGE_MODEL, model={"cell": "gru"}), key="model.cell")


def test_two_vocabularies_do_not_share_an_embedding_table():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, text={"shared": False}))
    assert recipe.model.settings["share_embeddings"] == "target"
    config = recipe.model.make_config("translation", 300, target_vocabulary_size=400)
    assert config.target_vocabulary_size == 400


@pytest.mark.parametrize(
    "name",
    ["vocabulary_size", "target_vocabulary_size", "padding_id", "end_id", "is_packed"],
)
def test_settings_that_follow_from_the_rest_are_unknown_keys(name):
    assert_mistake(recipe_error(TRANSLATION, model={name: 5}), "unknown", key=f"model.{name}")


# Other sections.


def test_search_settings_have_the_values_and_the_defaults():
    recipe = Recipe.from_dictionary(
        changed(TRANSLATION, evaluation={"search": {"beams": 2, "forbidden_ids": [7]}})
    )
    assert recipe.evaluation.search_settings() == SearchSettings(beams=2, forbidden_ids=(7,))


def test_vocabulary_size_is_fixed_or_8000_by_default():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, text={"tokenizer": "bytes"}))
    assert recipe.text.vocabulary_size == 260
    assert Recipe.from_dictionary(TRANSLATION).text.vocabulary_size == 8000


@pytest.mark.parametrize("schedule", ["inverse_square_root", "cosine", "linear"])
def test_learning_rate_schedule_has_the_settings(schedule):
    settings = {"schedule": schedule, "learning_rate": 1e-3, "warmup_steps": 4}
    rate = TrainingSection(steps=10, **settings).learning_rate_schedule(64, total_steps=10)
    assert rate.registered_name == schedule
    assert (rate.peak_rate, rate.warmup_steps) == (1e-3, 4)


def test_learning_rate_schedule_of_a_constant_rate_is_a_number():
    section = TrainingSection(steps=10, schedule="constant", learning_rate=1e-3)
    assert section.learning_rate_schedule(64, total_steps=10) == 1e-3


def test_learning_rate_schedule_without_a_rate_is_that_of_the_paper():
    rate = TrainingSection(steps=10).learning_rate_schedule(512, total_steps=10)
    assert rate.peak_rate == pytest.approx((512 * 4000) ** -0.5)


# One wrong value.
@pytest.mark.parametrize(
    ("section", "key", "values", "expected"),
    [
        ("text", "vocabulary_size", ["six", True, 1.5, [1], 0], "a whole number of at least 1"),
        ("model", "kind", ["rnn", 3, ["recurrent"], None], "'recurrent', "),
        ("model", "hidden_dim", ["six", True, 1.5, [1], 0], "a whole number of at least 1"),
        ("model", "dropout", [-0.1, 1, 1.0, "x", float("nan")], "a number in [0, 1)"),
        ("model", "use_bias", ["no", 0, 1], "True or False"),
        ("model", "attention", ["no_such", None, 3, ["shaw"]], "one of '"),
        ("model", "size", ["huge", 3, ["tiny"]], "one of 'base', 'big', 'small', 'tiny'"),
        ("model", "attention_options", [3, [], "x"], "a mapping"),
        ("batches", "tokens", ["six", True, 1.5, [1], 0, None], "a whole number of at least 1"),
        ("batches", "max_length", [0, 1, "x"], "a whole number of at least 2"),
        ("batches", "too_long", ["cut"], "one of 'skip', 'truncate'"),
        ("training", "steps", [0, -1, 1.5, 1e5, "x"], "null or a whole number of at least 1"),
        ("training", "warmup_steps", [-1, 0.5], "a whole number of at least 0"),
        (
            "training",
            "learning_rate",
            [0, -1.0, float("nan"), float("inf"), "1e-3"],
            "null or a finite number above 0",
        ),
        ("training", "label_smoothing", [1, -0.1], "a number in [0, 1)"),
        ("training", "ema", [1], "a number in [0, 1)"),
        ("training", "clip_norm", [0], "null or a finite number above 0"),
        ("training", "optimizer", ["no_such"], "'adamw'"),
        ("training", "optimizer_options", [3, []], "a mapping"),
        ("training", "schedule", ["no_such"], "'inverse_square_root'"),
        ("training", "schedule_options", [3, []], "a mapping"),
        ("training", "precision", ["float16"], "one of 'float32', 'mixed_bfloat16', "),
        ("training", "xla", ["yes", 1], "True or False"),
        ("training", "distribution", [None], "one of 'auto', 'mirrored', "),
        ("training", "loggers", ["jsonl", []], "a list of names"),
        ("evaluation", "every", [0], "a whole number of at least 1"),
        ("evaluation", "patience", [0], "null or a whole number of at least 1"),
        ("evaluation", "metric", ["BLEU"], "'bleu'"),
        ("evaluation", "bleu_tokens", ["moses"], "one of '13a', 'char', 'intl', 'none', 'zh'"),
        ("checkpoints", "keep", [0], "a whole number of at least 1"),
        ("checkpoints", "final", ["first"], "one of 'average', 'best', 'ema', 'last'"),
        ("tensorboard", "profile", [3, [1], [5, 1]], "[100, 110]"),
        ("export", "weights", ["int4"], "one of 'bfloat16', 'float16', 'float32', 'int8'"),
        ("export", "to", ["", 3], "null or text"),
        ("text", "tokenizer", ["no_such"], "'sentencepiece'"),
        ("text", "sampling", [-0.1, 1.1, "x"], "a number in [0, 1]"),
        ("text", "sampled", ["target", True], "one of 'both', 'source'"),
        ("text", "options", [3], "a mapping"),
        ("data", "format", ["no_such"], "null or one of '"),
        ("data", "columns", ["source", []], "null or a list of names"),
        ("data", "on_bad_line", ["ignore"], "one of 'error', 'skip'"),
        ("data", "train", [3, ["a", "b", "c"]], "a file or pattern, or a list of one or two"),
        ("data", "test", [["a", "b"], 3], "a mapping"),
        ("data", "cache", [3], "null or text"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(section, key, values, expected):
    for value in values:
        error = recipe_error(TRANSLATION, **{section: {key: value}})
        assert_mistake(error, key=f"{section}.{key}", expected=expected, got=value)


@pytest.mark.parametrize(
    ("section", "key", "value", "got"),
    [
        ("tensorboard", "profile", [0, 5], 0),
        ("training", "loggers", ["jsonl", "paper"], "paper"),
        ("data", "columns", ["source", 3], 3),
    ],
)
def test_wrong_items_of_lists_are_refused(section, key, value, got):
    error = recipe_error(TRANSLATION, **{section: {key: value}})
    assert_mistake(error, key=f"{section}.{key}", got=got)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
def test_seed_has_64_bits(seed):
    assert_mistake(recipe_error(TRANSLATION, seed=seed), key="seed", got=seed)
    assert Recipe.from_dictionary({**TRANSLATION, "seed": 2**64 - 1}).seed == 2**64 - 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "-a", "a b", "a" * 101, 3, None])
def test_name_can_be_the_name_of_a_directory(name):
    assert_mistake(recipe_error(TRANSLATION, name=name), key="name", got=name)


@pytest.mark.parametrize("missing", ["name", "task"])
def test_name_and_task_are_required(missing):
    dictionary = {key: value for key, value in TRANSLATION.items() if key != missing}
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dictionary(dictionary)
    assert_mistake(caught.value, "missing", key=missing)


def test_recipe_and_sections_are_mappings():
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dictionary([])
    assert_mistake(caught.value, "mapping", "[]")
    error = recipe_error(TRANSLATION, batches=3)
    assert_mistake(error, key="batches", expected="tokens, max_length, too_long", got=3)
