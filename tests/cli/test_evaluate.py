"""The command `keras-transformer evaluate`."""

import argparse
import dataclasses
import json
import os
import shutil
from types import SimpleNamespace

import pytest

from keras_transformer._utils.console import print_rendered
from keras_transformer.cli.evaluate import add_arguments, bleu_tokens_of, draw_evaluation
from keras_transformer.cli.main import main
from keras_transformer.export import TrainedModel
from keras_transformer.export.manifest import read_manifest, write_manifest
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference import BLEU_TOKENS, evaluate_translations
from keras_transformer.metrics import TEXT_METRICS
from keras_transformer.trainer import load_recipe
from tests.export.small_export import manifest_content

SOURCES = ["zwei rote Hunde", "neun graue Kühe", "fünf grüne Vögel", "drei weiße Fische"]
REFERENCES = ["two red dogs", "nine gray cows", "five [red]green[/red] bricks", "three white fish"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in (("test.de", SOURCES), ("test.en", REFERENCES)):
        content = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def evaluate(model, *arguments):
    files = ["--source", "test.de", "--reference", "test.en"]
    return main(["evaluate", str(model), *files, *arguments])


def add_and_parse(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["model", "--source", "a", "--reference", "b", *arguments])


def test_evaluate_prints_json_and_writes_translations(folder, phrases_export, capsys):
    assert evaluate(phrases_export, "--json", "--output", "answers.en") == 0
    printed, told = capsys.readouterr()
    assert told == ""
    content = json.loads(printed)
    assert content["model"] == str(phrases_export)
    assert (content["sentences"], content["metrics"]["exact_match"]) == (4, 0.75)
    assert [sentence["line"] for sentence in content["worst"]] == [3]
    answers = (folder / "answers.en").read_text().splitlines()
    assert answers == ["two red dogs", "nine gray cows", "five green birds", "three white fish"]


def test_metrics_are_those_of_the_option_or_all(folder, phrases_export, capsys):
    for arguments, expected in (
        (["--metrics", "chrf", "exact_match"], ["chrf", "exact_match"]),
        ([], sorted(TEXT_METRICS)),
    ):
        assert evaluate(phrases_export, "--json", *arguments) == 0
        content = json.loads(capsys.readouterr().out)
        assert list(content["metrics"]) == expected
        assert set(content["signatures"]) <= set(expected)
    assert evaluate(phrases_export, "--metrics", "bleu") == 0
    printed = capsys.readouterr().out
    assert "BLEU" in printed
    assert "exact match" not in printed


def test_unknown_metric_exits_with_2_and_lists_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="2"):
        add_and_parse("--metrics", "blue")
    complaint = capsys.readouterr().err
    assert all(name in complaint for name in TEXT_METRICS)


def test_evaluate_with_a_setting_of_sampling_is_a_mistake(folder, phrases_run, capsys):
    assert evaluate(phrases_run, "--top-p", "0.9") == 2
    assert "`--top-p` must be left out with the search 'beam'" in capsys.readouterr().err


def test_evaluate_takes_all_bleu_tokens():
    for tokens in BLEU_TOKENS:  # known without TensorFlow
        assert add_and_parse("--bleu-tokens", tokens).bleu_tokens == tokens


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"evaluation": {"bleu_tokens": "none"}}, "none"),
        ({"evaluation": {"bleu_tokens": "unknown"}}, "13a"),
        ({"evaluation": None}, "13a"),
        ({}, "13a"),
        (None, "13a"),
    ],
)
def test_bleu_tokens_default_to_those_of_the_recipe(recipe, expected):
    assert bleu_tokens_of(SimpleNamespace(recipe=recipe)) == expected


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [({"evaluation": {"bleu_tokens": "none"}}, "none"), ("something else", "13a")],
)
def test_bleu_tokens_of_an_export_with_a_recipe(recipe, expected, folder, phrases_export, capsys):
    shutil.copytree(phrases_export, folder / "phrases")
    version = resolve_version(folder / "phrases")
    content = {**read_manifest(version), "recipe": recipe}
    write_manifest(version, {key: content[key] for key in manifest_content([])})
    assert evaluate("phrases", "--json") == 0
    assert f"|tok:{expected}|" in json.loads(capsys.readouterr().out)["signatures"]["bleu"]


def test_bleu_tokens_of_a_run_are_those_of_the_option_or_of_the_recipe(folder, phrases_run, capsys):
    recipe = load_recipe("quickstart", ["evaluation.bleu_tokens=char"]).to_dictionary()
    dataclasses.replace(TrainedModel.load(phrases_run), recipe=recipe).save(folder / "run")
    for arguments, expected in (([], "char"), (["--bleu-tokens", "none"], "none")):
        assert evaluate("run", "--json", *arguments) == 0
        assert f"|tok:{expected}|" in json.loads(capsys.readouterr().out)["signatures"]["bleu"]


def test_evaluate_of_an_unfinished_run_raises_an_error(folder, capsys):
    (folder / "run").mkdir()
    (folder / "run" / "recipe.yaml").write_text(load_recipe("quickstart").to_yaml())
    assert evaluate("run") == 2
    assert "run: this run is not finished" in capsys.readouterr().err


def test_evaluate_prints_a_table_and_the_worst_sentences(capsys):
    hypotheses = [*REFERENCES[:2], "five green birds \x1b[31m", REFERENCES[3]]
    names = ("bleu", "chrf", "exact_match")
    evaluation = evaluate_translations(SOURCES, hypotheses, REFERENCES, metrics=names)
    print_rendered(lambda console: draw_evaluation(console, evaluation))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert " \n" not in printed
    rows = {line[:11].strip(): line[11:].split() for line in printed.splitlines()[:5]}
    assert rows["sentences"] == ["4"]
    assert rows["exact match"] == ["75.0%"]
    assert rows["BLEU"][1].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert rows["chrF"][1].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert 50 < float(rows["chrF"][0]) < 100
    worst = printed.splitlines()[6:]
    assert worst[0].startswith("line 3, chrF ")
    assert worst[1:] == [
        "  source:     fünf grüne Vögel",
        "  reference:  five [red]green[/red] bricks",
        "  hypothesis: five green birds \\x1b[31m",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--reference longer.en",
            "test.de: line count 4, but longer.en: line count 5.",
        ),
        ("--reference missing.en", "missing.en: no such file"),
        ("--source empty --reference empty", "empty: no lines."),
        ("--output test.en", "test.en: is already read or written. "),
        ("--worst -1", "`--worst` must be a whole number of at least 0; got -1."),
        ("--batch-size 0", "`--batch-size` must be a whole number of at least 1; got 0."),
    ],
)
def test_evaluate_mistakes_are_one_line_with_exit_code_2(folder, capsys, arguments, message):
    """All of them are reported before the model is opened."""
    (folder / "longer.en").write_text("line\n" * 5)
    (folder / "empty").write_text("")
    before = sorted(os.listdir(folder))
    assert evaluate("no model", *arguments.split()) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith(f"keras-transformer: {message}")
    assert complaint.count("\n") == 1
    assert sorted(os.listdir(folder)) == before
