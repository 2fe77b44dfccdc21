"""A recipe made of plain values: defaults, round trips, and what does not go together."""

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
from keras_transformer.trainer.config import Recipe
from keras_transformer.trainer.recipe_file import RecipeError
from keras_transformer.trainer.recipes import load_recipe

TRANSLATION = {
    "name": "a",
    "task": "translation",
    "data": {"train": ["a.en", "a.de"], "validation": ["b.en", "b.de"]},
    "training": {"steps": 10},
}
LANGUAGE_MODEL = {
    "name": "a",
    "task": "language_model",
    "data": {"train": "a.txt"},
    "training": {"epochs": 2},
}


def changed(recipe, **sections):
    """The dictionary with other values in some of its sections."""
    new = dict(recipe)
    for section, values in sections.items():
        new[section] = {**new.get(section, {}), **values} if isinstance(values, dict) else values
    return new


def mistakes(recipe, **sections):
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dictionary(changed(recipe, **sections))
    return caught.value.mistakes


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
            evaluation={"search": {"forbidden_ids": [5, 6]}},
            tensorboard={"profile": [3, 5]},
        ),
        changed(TRANSLATION, model={"kind": "recurrent", "preset": "tiny", "cell": "gru"}),
        changed(
            LANGUAGE_MODEL,
            data={"train": "a.jsonl", "keys": {"text": "body"}},
            batches={"packed": True},
        ),
    ],
)
def test_round_trips_are_exact(dictionary, tmp_path):
    recipe = Recipe.from_dictionary(dictionary)
    resolved = recipe.to_dictionary()
    assert json.loads(json.dumps(resolved)) == resolved
    assert Recipe.from_dictionary(resolved) == recipe
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(path) == recipe
    assert load_recipe(path).to_yaml() == recipe.to_yaml()


def test_what_is_given_out_is_a_copy():
    recipe = Recipe.from_dictionary(TRANSLATION)
    resolved = recipe.to_dictionary()
    resolved["model"]["attention_options"]["x"] = 1
    resolved["evaluation"]["search"]["beams"] = 7
    assert recipe == Recipe.from_dictionary(TRANSLATION)


def test_defaults_are_the_papers():
    training = Recipe.from_dictionary(TRANSLATION).training
    assert (training.beta_1, training.beta_2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.warmup_steps, training.label_smoothing) == (4000, 0.1)
    assert Recipe.from_dictionary(TRANSLATION).checkpoints.average == 5


def test_presets_are_resolved():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"preset": "big", "dropout": 0.2}))
    assert recipe.model.settings["hidden_dim"] == 1024
    assert recipe.model.settings["dropout"] == 0.2
    assert "preset" not in recipe.to_dictionary()["model"]


def test_model_section_makes_configs():
    model = Recipe.from_dictionary(changed(TRANSLATION, model={"preset": "tiny"})).model
    assert model.make_config("translation", 300) == TransformerConfig.preset(
        "tiny", vocabulary_size=300
    )
    model = Recipe.from_dictionary(changed(LANGUAGE_MODEL, model={"num_layers": 2})).model
    assert model.make_config("language_model", 300, is_packed=True) == LanguageModelConfig(
        vocabulary_size=300, num_layers=2, is_packed=True
    )


@pytest.mark.parametrize(
    ("kind", "config_class"),
    [("recurrent", RecurrentSeq2SeqConfig), ("convolutional", ConvolutionalSeq2SeqConfig)],
)
def test_models_of_other_kinds(kind, config_class):
    """Kind and settings are kept; a preset means what the kind says."""
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"kind": kind, "preset": "tiny"}))
    config = recipe.model.make_config("translation", 300, target_vocabulary_size=300)
    expected = config_class.preset("tiny", vocabulary_size=300, target_vocabulary_size=300)
    assert config == expected
    assert recipe.to_dictionary()["model"]["kind"] == kind
    assert "num_heads" not in recipe.to_dictionary()["model"]


def test_copying_and_coverage_of_a_recurrent_model():
    settings = {"copies": True, "coverage_attention": True, "coverage_weight": 1.0}
    recipe = Recipe.from_dictionary(changed(TRANSLATION, model={"kind": "recurrent", **settings}))
    config = recipe.model.make_config("translation", 300)
    assert config == RecurrentSeq2SeqConfig(vocabulary_size=300, **settings)
    (mistake,) = mistakes(TRANSLATION, model={"coverage_attention": True})
    assert mistake.startswith("`model.coverage_attention` is no setting of a model of the kind 'tr")


def test_a_transformer_need_not_be_named():
    assert Recipe.from_dictionary(TRANSLATION).model.kind == "transformer"
    assert Recipe.from_dictionary(LANGUAGE_MODEL).model.kind == "transformer"


def test_settings_of_another_kind():
    (mistake,) = mistakes(TRANSLATION, model={"kind": "recurrent", "num_heads": 8})
    assert mistake.startswith("`model.num_heads` is no setting of a model of the kind 'recurrent'")
    assert "which has width, " in mistake
    assert "or choose another `model.kind`." in mistake
    (mistake,) = mistakes(TRANSLATION, model={"kind": "recurrent", "attention": "alibi"})
    assert mistake.startswith("`model.attention`: The attention mechanism 'alibi' cannot attend")
    (mistake,) = mistakes(LANGUAGE_MODEL, model={"kind": "recurrent"})
    assert mistake == "`model.kind` must be one of 'transformer'; got 'recurrent'."
    (mistake,) = mistakes(LANGUAGE_MODEL, model={"cell": "gru"})
    assert mistake.startswith("`model.cell` is not a key of a recipe.")


def test_two_vocabularies_share_no_table():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, text={"shared": False}))
    assert recipe.model.settings["share_embeddings"] == "target"
    config = recipe.model.make_config("translation", 300, target_vocabulary_size=400)
    assert config.target_vocabulary_size == 400


def test_evaluation_section_makes_a_search():
    recipe = Recipe.from_dictionary(
        changed(TRANSLATION, evaluation={"search": {"beams": 2, "forbidden_ids": [7]}})
    )
    assert recipe.evaluation.search_settings() == SearchSettings(beams=2, forbidden_ids=(7,))


def test_bytes_have_their_size():
    recipe = Recipe.from_dictionary(changed(TRANSLATION, text={"tokenizer": "bytes"}))
    assert recipe.text.vocabulary_size == 260
    assert Recipe.from_dictionary(TRANSLATION).text.vocabulary_size == 8000


def test_recipes_are_frozen():
    recipe = Recipe.from_dictionary(TRANSLATION)
    for frozen in (recipe, recipe.training, recipe.model):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.seed = 2


# BAD_INPUTS 34 to 37 and 45: one wrong value; the key and what came are always in the message.
@pytest.mark.parametrize(
    ("section", "key", "values", "wanted"),
    [
        ("text", "vocabulary_size", ["six", True, 1.5, [1], 0], "a whole number of at least 1"),
        ("model", "kind", ["rnn", 3, ["recurrent"], None], "one of 'convolutional', 'recurrent', "),
        ("model", "hidden_dim", ["six", True, 1.5, [1], 0], "a whole number of at least 1"),
        ("model", "dropout", [-0.1, 1, 1.0, "x", float("nan")], "a number in [0, 1)"),
        ("model", "use_bias", ["no", 0, 1], "True or False"),
        ("model", "attention", ["dot", None, 3, ["shaw"]], "one of '"),
        ("model", "preset", ["huge", 3, ["tiny"]], "one of 'base', 'big', 'small', 'tiny'"),
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
        ("training", "optimizer", ["sgd"], "one of 'adam', 'adamw'"),
        ("training", "schedule", ["cos"], "one of 'constant', 'cosine', 'inverse_square_root', "),
        ("training", "precision", ["float16"], "one of 'float32', 'mixed_bfloat16', "),
        ("training", "xla", ["yes", 1], "True or False"),
        ("training", "distribution", [None], "one of 'auto', 'mirrored', "),
        ("evaluation", "every", [0], "a whole number of at least 1"),
        ("evaluation", "stop_after", [0], "null or a whole number of at least 1"),
        ("evaluation", "metric", ["BLEU"], "one of 'bleu', 'chrf', 'loss'"),
        ("evaluation", "bleu_tokens", ["moses"], "one of '13a', 'char', 'intl', 'none', 'zh'"),
        ("checkpoints", "keep", [0], "a whole number of at least 1"),
        ("checkpoints", "final", ["first"], "one of 'average', 'best', 'ema', 'last'"),
        ("tensorboard", "profile", [3, [1], [0, 5], [5, 1]], ""),
        ("export", "weights", ["int8"], "one of 'bfloat16', 'float16', 'float32'"),
        ("export", "to", ["", 3], "null or text"),
        ("text", "tokenizer", ["spm"], "one of 'bytes', 'sentencepiece', 'wordpiece'"),
        ("text", "sampling", [-0.1, 1.1, "x"], "a number in [0, 1]"),
        ("text", "sampled", ["target", True], "one of 'both', 'source'"),
        ("text", "options", [3], "a mapping"),
        ("data", "kind", ["csv"], "null or one of 'blank-line-documents', "),
        ("data", "columns", ["source", []], "null or a list of names"),
        ("data", "on_bad_line", ["ignore"], "one of 'error', 'skip'"),
        ("data", "train", [3, ["a", "b", "c"]], "a file or pattern, or a list of one or two"),
        ("data", "test", [["a", "b"], 3], "a mapping"),
        ("data", "cache", [3], "null or text"),
    ],
)
def test_values_of_the_wrong_kind(section, key, values, wanted):
    for value in values:
        (mistake,) = mistakes(TRANSLATION, **{section: {key: value}})
        assert mistake.startswith(f"`{section}.{key}` must "), value
        assert wanted in mistake
        if not isinstance(value, list):
            assert f"got {value!r}." in mistake


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
def test_seeds_are_of_64_bits(seed):
    (mistake,) = mistakes(TRANSLATION, seed=seed)
    assert mistake.startswith("`seed` must be ")
    assert mistake.endswith(f"got {seed!r}.")
    assert Recipe.from_dictionary({**TRANSLATION, "seed": 2**64 - 1}).seed == 2**64 - 1


@pytest.mark.parametrize("name", ["", "a/b", "..", "-a", "a b", "a" * 101, 3, None])
def test_names_are_names_of_directories(name):
    (mistake,) = mistakes(TRANSLATION, name=name)
    assert mistake.startswith("`name` must be ")
    assert mistake.endswith(f"got {name!r}.")


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"model": {"hidden_dim": 100}},
            "`model.hidden_dim` must be divisible by `model.num_heads`; got hidden_dim=100 and num_heads=8.",
        ),
        ({"model": {"cross_attention": "alibi"}}, "`model.cross_attention`: The attention"),
        (
            {"model": {"attention": "shaw", "attention_options": {"max_distance": 0}}},
            "`model.attention_options` of 'shaw' do not fit: ",
        ),
        (
            {"model": {"attention": "linformer"}},
            "`model.attention`: The attention mechanism 'linformer' cannot hide the future",
        ),
        (
            {"model": {"decoder_attention": "big_bird"}},
            "`model.decoder_attention`: The attention mechanism 'big_bird' cannot hide the future",
        ),
        (
            {
                "model": {
                    "attention": "linformer",
                    "decoder_attention": "local",
                    "max_length": 100,
                }
            },
            "`model.max_length` must be at least `batches.max_length` where `model.attention` is",
        ),
        (
            {"model": {"positions": "learned", "max_length": 100}},
            "`model.max_length` must be at least `batches.max_length` where",
        ),
        (
            {"model": {"cross_attention": "location_based", "max_length": 100}},
            "where `model.cross_attention` is location_based; got 100 and ",
        ),
        (
            {"model": {"kind": "convolutional", "max_length": 100}},
            "`model.max_length` must be at least `batches.max_length` where",
        ),
        (
            {"model": {"share_embeddings": "all"}, "text": {"shared": False}},
            "`model.share_embeddings` must be target or none where `text.shared` is false",
        ),
        (
            {"text": {"options": {"lowercase": True}}},
            "`text.options` must be one of 'model'; got 'lowercase'.",
        ),
        ({"text": {"options": {"model": "word"}}}, "`text.options.model` must be one of 'bpe', "),
        (
            {"text": {"tokenizer": "bytes", "options": {"model": "bpe"}}},
            "`text.options`: A 'bytes' tokenizer has no options; got 'model'.",
        ),
        (
            {"text": {"tokenizer": "bytes", "vocabulary_size": 300}},
            "`text.vocabulary_size` must be 260 for 'bytes'; got 300.",
        ),
        ({"text": {"vocabulary_size": 3}}, "`text.vocabulary_size` must be a whole number of at "),
        ({"text": {"tokenizer": "bytes", "sampling": 0.1}}, "`text.sampling` must be 0 for "),
        (
            {"text": {"options": {"model": "bpe"}, "sampling": 1}},
            "`text.sampling` must be below 1 for a BPE model",
        ),
        (
            {"batches": {"tokens": 255}},
            "`batches.tokens` must be at least `batches.max_length`, or a batch cannot hold the "
            "longest sequence; got 255 and 256.",
        ),
        ({"batches": {"packed": True}}, "`batches.packed` must be false for the task "),
        (
            {"training": {"epochs": 2}},
            "One of `training.steps` and `training.epochs` must be given; got 10 and 2. Set one of "
            "them to null.",
        ),
        ({"training": {"steps": None}}, "One of `training.steps` and `training.epochs` must be "),
        ({"training": {"weight_decay": 0.1}}, "`training.weight_decay` must be 0 for 'adam'; "),
        ({"training": {"warmup_steps": 0}}, "`training.warmup_steps` must be at least 1 for "),
        ({"training": {"schedule": "constant"}}, "`training.learning_rate` is missing: "),
        (
            {"training": {"schedule": "linear", "learning_rate": 1e-3, "warmup_steps": 10}},
            "`training.steps` must be more than `training.warmup_steps`, which it includes; got 10 "
            "and 10.",
        ),
        (
            {
                "training": {
                    "schedule": "cosine",
                    "learning_rate": 1e-3,
                    "final_rate": 0.1,
                    "warmup_steps": 1,
                }
            },
            "`training.final_rate` must not be above `training.learning_rate`; got 0.1 and 0.001.",
        ),
        ({"training": {"final_rate": 1e-3}}, "`training.final_rate` must be 0 for "),
        (
            {"evaluation": {"sentences": 0, "metric": "bleu"}},
            "`evaluation.sentences` must be at least 1 for `evaluation.metric` 'bleu'; got 0.",
        ),
        (
            {"evaluation": {"search": {"beams": 0}}},
            "`evaluation.search.beams` must be a whole number of at least 1; got 0.",
        ),
        (
            {"evaluation": {"search": {"min_length": 5, "max_length": 3}}},
            "`evaluation.search.min_length` must not be more than `evaluation.search.max_length`",
        ),
        (
            {"evaluation": {"search": {"forbidden_ids": [-1]}}},
            "`evaluation.search.forbidden_ids` must be ",
        ),
        (
            {"checkpoints": {"average": 6}},
            "`checkpoints.average` must not be more than `checkpoints.keep`; got 6 and 5.",
        ),
        ({"checkpoints": {"final": "ema"}}, "`training.ema` must be above 0, such as 0.999, for "),
        (
            {"model": {"dropout": 0.0}, "training": {"steps": 10, "consistency": 5.0}},
            "`model.dropout` must be above 0 for `training.consistency`: without it the two ",
        ),
        ({"tensorboard": {"profile": [5, 11]}}, "`tensorboard.profile` must end by "),
        (
            {"data": {"builtin": "dates"}},
            "`data.train` and `data.builtin` exclude each other: 'dates' is a whole corpus.",
        ),
        ({"data": {"train": None}}, "`data.train` is missing: name one or two files"),
        ({"data": {"validation": "b.txt"}}, "`data.validation` must hold source and target for "),
        ({"data": {"test": {"x": "c.txt"}}}, "`data.test.x` must hold source and target for "),
        ({"data": {"test": {"x": []}}}, "`data.test.x` names no files."),
        ({"data": {"test": {"a.b": "c.tsv"}}}, "`data.test` must give each corpus a name of "),
        ({"data": {"columns": ["source", "target"]}}, "`data.columns` is for TSV files; a.en is "),
        ({"data": {"keys": {"text": "t"}}}, "`data.keys` is for JSON lines; a.en is of the kind "),
        ({"data": {"keys": {"text": 3}}}, "`data.keys.text` must be text; got 3."),
        ({"data": {"train": "a.jsonl"}}, "`data.keys` is missing: a.jsonl holds JSON lines."),
        ({"data": {"train": ["a.tsv", "b.txt"]}}, "`data.kind`"),
        ({"data": {"train": "a", "kind": "parallel"}}, "`data.train`: Parallel files are two, "),
        (
            {"data": {"kind": "tsv", "columns": ["source", "text"]}},
            "`data.columns`: The columns must be one of ",
        ),
    ],
)
def test_what_does_not_go_together(sections, expected):
    (mistake,) = mistakes(TRANSLATION, **sections)
    assert expected in mistake
    assert "\n" not in mistake


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"data": {"train": None, "builtin": "dates"}}, "`data.builtin` must be null for the task"),
        ({"data": {"train": ["a", "b"]}}, "`data.train` must hold text for the task 'language_"),
        ({"text": {"shared": False}}, "`text.shared` must be true for the task "),
        ({"text": {"sampling": 0.2}, "batches": {"packed": True}}, "`text.sampling` must be 0 for"),
        (
            {"model": {"attention": "location_based"}, "batches": {"packed": True}},
            "`batches.packed`: `attention`: The attention mechanism 'location_based' cannot ",
        ),
        (
            {"model": {"attention": "memory_compressed"}, "batches": {"packed": True}},
            "`batches.packed`: `attention`: The attention mechanism 'memory_compressed' cannot ",
        ),
        (
            {"data": {"validation": "b.txt"}, "evaluation": {"metric": "bleu"}},
            "`evaluation.metric` must be loss for the task 'language_model'",
        ),
        ({"data": {"test": {"one": "c.txt"}}}, "`data.test` must be left out for the task"),
        ({"evaluation": {"stop_after": 1}}, "`evaluation.stop_after` needs validation data."),
        ({"checkpoints": {"final": "best"}}, "`checkpoints.final` 'best' needs validation data."),
        (
            {"model": {"num_encoder_layers": 2}},
            "`model.num_encoder_layers` is not a key of a recipe. Did you mean `model.num_layers`?",
        ),
    ],
)
def test_what_a_language_model_has_not(sections, expected):
    (mistake,) = mistakes(LANGUAGE_MODEL, **sections)
    assert expected in mistake


@pytest.mark.parametrize(
    "name", ["vocabulary_size", "target_vocabulary_size", "padding_id", "is_packed"]
)
def test_what_follows_from_the_rest_is_no_key(name):
    (mistake,) = mistakes(TRANSLATION, model={name: 5})
    assert mistake.startswith(f"`model.{name}` is not a key of a recipe.")


@pytest.mark.parametrize("missing", ["name", "task"])
def test_what_must_be_there(missing):
    dictionary = {key: value for key, value in TRANSLATION.items() if key != missing}
    with pytest.raises(RecipeError, match=f"^`{missing}` is missing: say what "):
        Recipe.from_dictionary(dictionary)


def test_no_mapping_is_no_recipe():
    with pytest.raises(RecipeError, match=r"^A recipe must be a mapping .*; got \[\]\.$"):
        Recipe.from_dictionary([])
    (mistake,) = mistakes(TRANSLATION, batches=3)
    assert mistake == (
        "`batches` must be a section with keys such as tokens, max_length, too_long; got 3."
    )
