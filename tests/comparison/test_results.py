"""Means and spreads, the table and the picture, from runs that are stored."""

import dataclasses
import json

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import Comparison
from keras_transformer.analysis.compare.report import draw_results, make_markdown, make_rows
from keras_transformer.analysis.compare.results import collect_results
from keras_transformer.trainer.config import Recipe
from tests.comparison.made_up_runs import TOKENS_PER_UPDATE, group, write_run

RECIPE = Recipe.from_dictionary(
    {
        "name": "recall",
        "task": "translation",
        "data": {"builtin": "recall"},
        "text": {"tokenizer": "bytes"},
        "training": {"steps": 20},
    }
)


@pytest.fixture
def comparison():
    return Comparison(
        name="recall",
        recipe="recall.yaml",
        models={"near": {}, "far": {}, "lost": {}},
        budget={"tokens": 2000},
        seeds=[1, 2],
    )


@pytest.fixture
def results(comparison, tmp_path):
    lengths = [group(8, 12, 0.5), group(13, 40, 0.25)]
    near = {"exact_matches": {8: 1.0, 16: 0.5, 32: 0.95}, "by_length": lengths}
    write_run(tmp_path, "near", 1, **near)
    write_run(tmp_path, "near", 2, **near)
    write_run(tmp_path, "far", 1, exact_matches={8: 1.0, 16: 0.9, 32: 0.0}, loss=0.1)
    write_run(tmp_path, "far", 2, exact_matches={8: 1.0, 16: 0.9, 32: 1.0}, loss=0.3, speed=1100.0)
    return collect_results(comparison, RECIPE, {"tokens_per_update": TOKENS_PER_UPDATE}, tmp_path)


def test_numbers_are_means_and_spreads_over_the_seeds(results):
    near, far = results.standings
    assert far.measures["loss"].mean == pytest.approx(0.2)
    assert far.measures["loss"].spread == pytest.approx(0.1 * 2**0.5)
    assert far.measures["tokens_per_second"].mean == 1050
    assert [(distance, measure.mean) for distance, measure in far.by_distance] == [
        (8, 1.0),
        (16, 0.9),
        (32, 0.5),
    ]
    # A solved distance beyond one that is not does not count.
    assert near.measures["longest_solved"].values == (8, 8)
    assert far.measures["longest_solved"].values == (16, 32)
    assert [(*place, measure.mean) for *place, measure in near.by_length] == [
        (8, 12, 0.5),
        (13, 40, 0.25),
    ]
    # The validation's curve, not the training's.
    assert [(tokens, measure.mean) for tokens, measure in far.curve] == [
        (1000.0, pytest.approx(0.4)),
        (2000.0, pytest.approx(0.2)),
    ]
    assert (near.tokens, near.parameters, near.seeds) == (2000.0, 123_456, (1, 2))


def test_runs_that_are_not_there_are_told(results):
    assert results.missing == (("lost", 1), ("lost", 2))
    assert "Not there, as it failed: lost, seed 2." in make_markdown(results, "picture.png")


def test_the_table(results):
    headings, rows = make_rows(results)
    assert headings == [
        "model",
        "validation loss",
        "validation exact match",
        "longest dependency solved",
        "tokens/s",
        "memory, MB",
        "parameters",
        "updates",
        "seeds",
    ]
    assert rows[1] == [
        "far",
        "0.2000 ± 0.1414",
        "45.0 ± 63.6%",
        "24 ± 11",
        "1,050 ± 71",
        "700 ± 0",
        "123,456",
        "20",
        "2",
    ]
    text = make_markdown(results, "picture.png")
    assert "Mean ± standard deviation over 2 seeds, 2,000 target tokens each." in text
    assert "| model | 8 | 16 | 32 |" in text
    assert "| near | 100.0 ± 0.0% | 50.0 ± 0.0% | 95.0 ± 0.0% |" in text
    assert "![recall](picture.png)" in text


def test_one_seed_has_no_spread(comparison, tmp_path):
    write_run(tmp_path, "near", 1, exact_matches={})
    comparison = dataclasses.replace(comparison, seeds=[1], models={"near": {}})
    plan = {"tokens_per_update": TOKENS_PER_UPDATE}
    results = collect_results(comparison, RECIPE, plan, tmp_path)
    headings, [row] = make_rows(results)
    assert "longest dependency solved" not in headings
    assert row[:3] == ["near", "0.5000", "0.0%"]
    assert "1 seed, 2,000" in make_markdown(results, "picture.png")


def test_what_was_not_measured_is_a_dash(comparison, tmp_path):
    for seed in (1, 2):
        write_run(tmp_path, "near", seed, exact_matches={8: 1.0}, speed=None)
    plan = {"tokens_per_update": TOKENS_PER_UPDATE}
    headings, [row] = make_rows(collect_results(comparison, RECIPE, plan, tmp_path))
    assert row[headings.index("tokens/s")] == "–"


def test_all_of_it_is_json(results):
    content = json.loads(json.dumps(results.to_dictionary()))
    assert content["quality"] == "exact_match"
    assert content["trained_distance"] == 32
    assert content["standings"][0]["measures"]["longest_solved"]["mean"] == 8


def test_the_picture_is_a_png(results):
    assert draw_results(results).startswith(b"\x89PNG")


def test_a_damaged_file_is_named(results, comparison, tmp_path):
    path = tmp_path / "near" / "seed_1" / "measured.json"
    path.write_text("{")
    with pytest.raises(UserError, match=r"measured.json: damaged .*Remove it"):
        collect_results(comparison, RECIPE, {"tokens_per_update": 1.0}, tmp_path)
