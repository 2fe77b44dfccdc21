"""Conflicting values of a recipe: the error has the key, its value and the other key."""

import pytest

from keras_transformer.trainer.config import Recipe
from tests.mistakes import assert_mistake
from tests.trainer.recipe.examples import LANGUAGE_MODEL, TRANSLATION, changed, recipe_error


def cosine(**settings):
    return {"training": {"schedule": "cosine", "learning_rate": 1e-3, **settings}}


@pytest.mark.parametrize(
    ("sections", "key", "facts"),
    [
        ({"model": {"hidden_dim": 100}}, "model.hidden_dim", ["100", "num_heads=8"]),
        ({"model": {"cross_attention": "alibi"}}, "model.cross_attention", ["alibi"]),
        ({"model": {"attention": "linformer"}}, "model.attention", ["linformer"]),
        (
            {"model": {"decoder_attention": "big_bird"}},
            "model.decoder_attention",
            ["big_bird"],
        ),
        (
            {
                "model": {
                    "attention": "linformer",
                    "decoder_attention": "local",
                    "max_length": 100,
                }
            },
            "model.max_length",
            ["batches.max_length=256", "100", "model.attention='linformer'"],
        ),
        (
            {"model": {"positions": "learned", "max_length": 100}},
            "model.max_length",
            ["batches.max_length=256", "100", "model.positions='learned'"],
        ),
        (
            {"model": {"cross_attention": "location_based", "max_length": 100}},
            "model.max_length",
            ["batches.max_length=256", "100", "model.cross_attention='location_based'"],
        ),
        (
            {"model": {"kind": "convolutional", "max_length": 100}},
            "model.max_length",
            ["batches.max_length=256", "100"],
        ),
        (
            {"model": {"share_embeddings": "all"}, "text": {"shared": False}},
            "model.share_embeddings",
            ["'target'", "'none'", "text.shared=false", "'all'"],
        ),
        ({"text": {"options": {"model": "word"}}}, "text.options.model", ["'bpe'", "'word'"]),
        (
            {"text": {"tokenizer": "bytes", "vocabulary_size": 300}},
            "text.vocabulary_size",
            ["260", "'bytes'", "300"],
        ),
        ({"text": {"vocabulary_size": 3}}, "text.vocabulary_size", ["3"]),
        ({"text": {"tokenizer": "bytes", "sampling": 0.1}}, "text.sampling", ["'bytes'", "0.1"]),
        (
            {"text": {"options": {"model": "bpe"}, "sampling": 1}},
            "text.sampling",
            ["below 1", "BPE", "1.0"],
        ),
        ({"batches": {"tokens": 255}}, "batches.tokens", ["max_length=256", "255"]),
        ({"batches": {"packed": True}}, "batches.packed", ["'translation'"]),
        ({"training": {"epochs": 2}}, "training.steps", ["epochs", "10 and 2"]),
        ({"training": {"steps": None}}, "training.steps", ["epochs", "neither"]),
        (
            {"training": {"optimizer_options": {"weight_decay": 0.1}}},
            "training.optimizer_options.weight_decay",
            ["'beta_1', 'beta_2', 'epsilon'"],
        ),
        (
            {"training": {"optimizer_options": {"beta_2": 1}}},
            "training.optimizer_options.beta_2",
            ["[0, 1)", "1"],
        ),
        ({"training": {"warmup_steps": 0}}, "training.warmup_steps", ["1", "inverse_square_root"]),
        ({"training": {"schedule": "constant"}}, "training.learning_rate", ["'constant'"]),
        ({"training": {"schedule": "linear"}}, "training.learning_rate", ["'linear'"]),
        (cosine(warmup_steps=10), "training.steps", ["10", "warmup_steps=10"]),
        (
            cosine(warmup_steps=1, final_rate=0.1),
            "training.final_rate",
            ["0.1", "learning_rate=0.001"],
        ),
        (
            cosine(warmup_steps=1, schedule_options={"cycles": 3}),
            "training.schedule_options",
            ["'cosine'", "'cycles'"],
        ),
        (
            {
                "training": {
                    "schedule": "constant",
                    "learning_rate": 1.0,
                    "schedule_options": {"a": 1},
                }
            },
            "training.schedule_options",
            ["'constant'", "'a'"],
        ),
        ({"training": {"final_rate": 1e-3}}, "training.final_rate", ["0.001", "0"]),
        (
            {"evaluation": {"sentences": 0, "metric": "bleu"}},
            "evaluation.sentences",
            ["metric='bleu'", "0"],
        ),
        ({"evaluation": {"search": {"beams": 0}}}, "evaluation.search.beams", ["0"]),
        ({"checkpoints": {"average": 6}}, "checkpoints.average", ["6", "keep=5"]),
        ({"checkpoints": {"final": "ema"}}, "training.ema", ["0.0", "checkpoints.final='ema'"]),
        (
            {"model": {"dropout": 0.0}, "training": {"steps": 10, "r_drop_alpha": 5.0}},
            "model.dropout",
            ["training.r_drop_alpha", "0.0"],
        ),
        ({"tensorboard": {"profile": [5, 11]}}, "tensorboard.profile", ["[5, 11]", "steps=10"]),
        ({"data": {"builtin": "dates"}}, "data.train", ["'dates'", "a.en"]),
        ({"data": {"train": None}}, "data.train", ["data.builtin"]),
        ({"data": {"validation": "b.txt"}}, "data.validation", ["source and target", "b.txt"]),
        ({"data": {"test": {"x": "c.txt"}}}, "data.test.x", ["source and target", "c.txt"]),
        ({"data": {"test": {"x": []}}}, "data.test.x", ["[]"]),
        ({"data": {"test": {"a.b": "c.tsv"}}}, "data.test", ["'a.b'"]),
        ({"data": {"columns": ["source", "target"]}}, "data.columns", ["tsv", "parallel"]),
        ({"data": {"keys": {"text": "t"}}}, "data.keys", ["json-lines", "parallel"]),
        ({"data": {"keys": {"text": 3}}}, "data.keys.text", ["3"]),
        ({"data": {"train": "a.jsonl"}}, "data.keys", ["a.jsonl"]),
        ({"data": {"train": ["a.tsv", "b.txt"]}}, "data.format", ["a.tsv"]),
        ({"data": {"format_options": {"sheet": 2}}}, "data.format_options.sheet", ["parallel"]),
        ({"data": {"train": "a", "format": "parallel"}}, "data.train", ["two", "a"]),
        (
            {"data": {"format": "tsv", "columns": ["source", "text"]}},
            "data.columns",
            ["source", "text"],
        ),
    ],
)
def test_conflict_names_the_key_and_both_values(sections, key, facts):
    assert_mistake(recipe_error(TRANSLATION, **sections), *facts, key=key)


@pytest.mark.parametrize(
    ("sections", "facts"),
    [
        ({"text": {"options": {"lowercase": True}}}, ["text.options", "'model'", "lowercase"]),
        (
            {"text": {"tokenizer": "bytes", "options": {"model": "bpe"}}},
            ["text.options", "'bytes'", "'model'"],
        ),
        (
            {"model": {"attention": "shaw", "attention_options": {"max_distance": 0}}},
            ["model.attention_options", "max_distance", "0"],
        ),
        (
            {"model": {"attention": "shaw", "attention_options": {"distance": 3}}},
            ["model.attention_options", "distance"],
        ),
        (
            {"model": {"feed_forward_options": {"num_expert": 8}}},
            ["model.feed_forward_options", "'dense'", "num_expert"],
        ),
        (
            {"evaluation": {"search": {"method": "sampling"}}},
            ["evaluation.search.method", "'beam'", "'greedy'", "got 'sampling'", "--temperature"],
        ),
        (
            {"evaluation": {"search": {"method": "greedy", "coverage_penalty": 0.2}}},
            ["evaluation.search.coverage_penalty", "'greedy'", "got 0.2", "'beam'"],
        ),
        (
            {"evaluation": {"search": {"min_length": 5, "max_length": 3}}},
            ["evaluation.search", "min_length", "max_length", "5", "3"],
        ),
        ({"evaluation": {"search": {"forbidden_ids": [-1]}}}, ["forbidden_ids", "-1"]),
        ({"evaluation": {"search": {"forbidden_ids": 3}}}, ["forbidden_ids", "3"]),
    ],
)
def test_wrong_options_of_variants_are_named(sections, facts):
    assert_mistake(recipe_error(TRANSLATION, **sections), *facts)


@pytest.mark.parametrize(
    ("sections", "key", "facts"),
    [
        ({"data": {"train": None, "builtin": "dates"}}, "data.builtin", ["language_model"]),
        ({"data": {"train": ["a", "b"]}}, "data.train", ["text", "language_model"]),
        ({"text": {"shared": False}}, "text.shared", ["language_model"]),
        (
            {"text": {"sampling": 0.2}, "batches": {"packed": True}},
            "text.sampling",
            ["0.2", "packed"],
        ),
        (
            {"model": {"attention": "location_based"}, "batches": {"packed": True}},
            "batches.packed",
            ["location_based"],
        ),
        (
            {"model": {"attention": "memory_compressed"}, "batches": {"packed": True}},
            "batches.packed",
            ["memory_compressed"],
        ),
        (
            {"data": {"validation": "b.txt"}, "evaluation": {"metric": "bleu"}},
            "evaluation.metric",
            ["'bleu'", "'loss'", "language_model"],
        ),
        ({"data": {"test": {"one": "c.txt"}}}, "data.test", ["one", "language_model"]),
        ({"evaluation": {"patience": 1}}, "evaluation.patience", ["data.validation"]),
        ({"checkpoints": {"final": "best"}}, "checkpoints.final", ["best", "data.validation"]),
        (
            {"model": {"num_encoder_layers": 2}},
            "model.num_encoder_layers",
            ["`model.num_layers`?"],
        ),
    ],
)
def test_conflict_with_a_language_model_names_the_key(sections, key, facts):
    assert_mistake(recipe_error(LANGUAGE_MODEL, **sections), *facts, key=key)


def test_conflicts_of_all_sections_are_reported_together():
    error = recipe_error(
        TRANSLATION, batches={"tokens": 255}, checkpoints={"average": 6}, text={"sampling": 2}
    )
    assert {mistake.argument for mistake in error.mistakes} == {
        "batches.tokens",
        "checkpoints.average",
        "text.sampling",
    }


def test_cosine_schedule_is_checked_without_a_number_of_steps():
    recipe = changed(
        LANGUAGE_MODEL, training={"schedule": "cosine", "learning_rate": 1e-3, "final_rate": 1e-4}
    )
    assert Recipe.from_dictionary(recipe).training.has_finite_schedule
