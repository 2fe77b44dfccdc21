"""Means and deviations, table and picture, from files of finished runs."""

import dataclasses
import json

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.analysis.compare import Comparison
from keras_transformer.analysis.compare.results import (
    collect_results,
    draw_results,
    make_markdown,
    make_rows,
)
from keras_transformer.trainer.config import Recipe
from tests.analysis.compare.made_up_runs import TOKENS_PER_STEP, group, write_run

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
    return collect_results(comparison, RECIPE, {"tokens_per_step": TOKENS_PER_STEP}, tmp_path)


def test_numbers_are_means_and_deviations_over_the_seeds(results):
    near, far = results.models
    assert far.measures["loss"].mean == pytest.approx(0.2)
    assert far.measures["loss"].deviation == pytest.approx(0.1 * 2**0.5)
    assert far.measures["tokens_per_second"].mean == 1050
    assert [(distance, measure.mean) for distance, measure in far.by_distance] == [
        (8, 1.0),
        (16, 0.9),
        (32, 0.5),
    ]
    # A distance beyond one that is not solved does not count.
    assert near.measures["longest_solved"].values == (8, 8)
    assert far.measures["longest_solved"].values == (16, 32)
    assert [(*lengths, measure.mean) for *lengths, measure in near.by_length] == [
        (8, 12, 0.5),
        (13, 40, 0.25),
    ]
    # The curve of the validation loss.
    assert [(tokens, measure.mean) for tokens, measure in far.curve] == [
        (1000.0, pytest.approx(0.4)),
        (2000.0, pytest.approx(0.2)),
    ]
    assert (near.tokens, near.parameters, near.seeds) == (2000.0, 123_456, (1, 2))


def test_missing_runs_are_reported(results):
    assert results.missing == (("lost", 1), ("lost", 2))
    assert "lost, seed 2" in make_markdown(results, "picture.png")


def test_table_has_quality_speed_and_size(results):
    headings, rows = make_rows(results)
    assert headings == [
        "model",
        "validation loss",
        "validation exact match",
        "longest dependency solved",
        "tokens/s",
        "memory, MB",
        "parameters",
        "steps",
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


def test_one_seed_has_no_deviation(comparison, tmp_path):
    write_run(tmp_path, "near", 1, exact_matches={})
    comparison = dataclasses.replace(comparison, seeds=[1], models={"near": {}})
    plan = {"tokens_per_step": TOKENS_PER_STEP}
    results = collect_results(comparison, RECIPE, plan, tmp_path)
    headings, [row] = make_rows(results)
    assert "longest dependency solved" not in headings
    assert row[:3] == ["near", "0.5000", "0.0%"]
    assert "1 seed, 2,000" in make_markdown(results, "picture.png")


def test_missing_measure_is_a_dash(comparison, tmp_path):
    for seed in (1, 2):
        write_run(tmp_path, "near", seed, exact_matches={8: 1.0}, speed=None)
    plan = {"tokens_per_step": TOKENS_PER_STEP}
    headings, [row] = make_rows(collect_results(comparison, RECIPE, plan, tmp_path))
    assert row[headings.index("tokens/s")] == "–"


def test_results_are_json(results):
    content = json.loads(json.dumps(dataclasses.asdict(results)))
    assert content["quality"] == "exact_match"
    assert content["trained_distance"] == 32
    assert content["models"][0]["measures"]["longest_solved"]["mean"] == 8


def test_picture_of_results_is_a_png(results):
    assert draw_results(results).startswith(b"\x89PNG")


def test_damaged_file_is_named(results, comparison, tmp_path):
    path = tmp_path / "near" / "seed_1" / "measured.json"
    path.write_text("{")
    with pytest.raises(UserError, match=r"measured\.json: damaged"):
        collect_results(comparison, RECIPE, {"tokens_per_step": 1.0}, tmp_path)
