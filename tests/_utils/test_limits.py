"""Numbers beyond all sensible sizes are refused when they are read."""

import copy
import dataclasses

import pytest

from keras_transformer._utils import checks
from keras_transformer._utils.checks import DEFAULT, MAXIMA, maximum_of
from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.cli.main import main
from keras_transformer.decoding import SearchSettings
from keras_transformer.decoding.constraints import NoRepeatNgram
from keras_transformer.models import TransformerConfig
from keras_transformer.trainer import Recipe
from tests.trainer.recipe.examples import TRANSLATION

HUGE = 10**20


@pytest.mark.parametrize(
    ("name", "limit"),
    [("steps", DEFAULT), ("data.builtin_pairs", 100_000_000), ("--beams", 1000)],
)
def test_limit_belongs_to_the_last_part_of_a_name(name, limit):
    assert checks.require_positive_integer(name, limit) == limit
    with pytest.raises(ArgumentError, match=str(limit)):
        checks.require_positive_integer(name, limit + 1)


def test_numbers_without_an_integer_have_no_default_limit():
    assert checks.require_positive("learning_rate", 1e300) == 1e300
    with pytest.raises(ArgumentError):
        checks.require_not_negative("length_penalty", 1e300)


NUMBERS = [
    field.name
    for field in dataclasses.fields(SearchSettings)
    if field.type in (int, float, int | None, float | None)
]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_search_has_a_limit(name):
    with pytest.raises(ArgumentError, match=name):
        SearchSettings(**{name: HUGE})


def test_limits_of_a_search_are_accepted():
    names = [name for name in NUMBERS if name in MAXIMA]
    assert len(names) >= 8
    for name in names:
        value = maximum_of(name)
        SearchSettings(**{name: value, "max_length": 2**24})
    with pytest.raises(ArgumentError):
        NoRepeatNgram(1_000_000)


@pytest.mark.parametrize(
    "name",
    [
        *("hidden_dim", "num_encoder_layers", "num_decoder_layers", "intermediate_dim"),
        *("vocabulary_size", "max_length", "num_heads", "padding_id"),
    ],
)
def test_every_size_of_a_model_has_a_limit(name):
    with pytest.raises(ArgumentError):
        TransformerConfig(**{"vocabulary_size": 100, "hidden_dim": 64, name: 10**9 * 64})


@pytest.mark.parametrize(
    "key",
    [
        *("data.builtin_pairs", "text.vocabulary_size", "text.maximum_passages"),
        *("batches.tokens", "batches.max_length", "batches.max_buckets", "batches.accumulate"),
        *("training.steps", "training.warmup_steps", "evaluation.every", "evaluation.sentences"),
        *("evaluation.search.beams", "checkpoints.keep", "tensorboard.every", "seed"),
        *("model.num_encoder_layers", "model.hidden_dim"),
    ],
)
@pytest.mark.parametrize("value", [HUGE, 1e9, 1e12])
def test_every_number_of_a_recipe_has_a_limit(key, value):
    values = copy.deepcopy(TRANSLATION)
    *sections, field = key.split(".")
    place = values
    for section in sections:
        place = place.setdefault(section, {})
    place[field] = HUGE if key == "seed" else value
    if key == "seed":
        place[field] *= HUGE
    with pytest.raises(UserError, match=field):
        Recipe.from_dictionary(values)


@pytest.mark.parametrize(
    "options", [["--beams", "100000"], ["--no-repeat-ngram", "1000000"], ["--max-length", "9" * 20]]
)
def test_a_command_refuses_a_huge_number_before_it_loads_anything(options, tmp_path, capsys):
    assert main(["translate", str(tmp_path / "run"), "--input", __file__, *options]) == 2
    assert options[0] in capsys.readouterr().err
