"""The command `keras-transformer score`."""

import json
import math

import pytest

from keras_transformer.cli.main import main
from keras_transformer.cli.score import format_score
from keras_transformer.inference import Score
from tests.inference.small_language_model import save_language_model

SOURCES = ["zwei rote Hunde", "zwei rote Hunde", ""]
TARGETS = ["two red dogs", "nine green birds and three fish", ""]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in (("test.de", SOURCES), ("test.en", TARGETS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.fixture(scope="module")
def language_model_run(tmp_path_factory):
    return save_language_model(tmp_path_factory.mktemp("runs") / "story")


def score(model, *arguments):
    return main(["score", str(model), *arguments])


def test_score_of_the_right_translation_is_higher(folder, phrases_run, capsys):
    assert score(phrases_run, "--source", "test.de", "--target", "test.en") == 0
    printed, told = capsys.readouterr()
    right, wrong, blank = (line.split("\t") for line in printed.splitlines())
    assert [row[0] for row in (right, wrong, blank)] == ["1", "2", "3"]
    assert -1 < float(right[1]) < 0
    assert float(wrong[1]) < -10
    for row in (right, wrong):
        perplexity = math.exp(-float(row[1]) / int(row[2]))
        assert float(row[3]) == pytest.approx(perplexity, rel=1e-3)
    assert blank[1:] == ["0.000000", "0", "nan"]
    total, tokens = float(right[1]) + float(wrong[1]), int(right[2]) + int(wrong[2])
    assert told == (
        f"3 lines: log-probability {total:,.4f}, {tokens} tokens, "
        f"perplexity {math.exp(-total / tokens):,.4f}\n"
    )


def test_score_writes_json_lines():
    row = json.loads(format_score(7, Score(-2.5, 5), "jsonl"))
    assert row == {"line": 7, "log_probability": -2.5, "tokens": 5, "perplexity": 1.648721}
    # JSON has neither infinity nor NaN.
    for score in (Score(-1e6, 1), Score(0.0, 0)):
        assert json.loads(format_score(1, score, "jsonl"))["perplexity"] is None


def test_score_of_a_language_model_needs_no_source(folder, language_model_run, capsys):
    assert score(language_model_run, "--target", "test.en") == 0
    printed, told = capsys.readouterr()
    tokens = [int(line.split("\t")[2]) for line in printed.splitlines()]
    # The bytes and the end token.
    assert tokens == [len(line) + 1 for line in TARGETS]
    assert told.startswith("3 lines: log-probability -")


def test_score_of_a_transformer_without_source_exits_with_2(folder, phrases_run, capsys):
    assert score(phrases_run, "--target", "test.en") == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"keras-transformer: {phrases_run}: a Transformer ")
    assert "--source" in complaint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--source test.de --target longer", "test.de: line count 3, but longer: line count 5."),
        ("--target missing", "missing: no such file"),
        ("--target empty", "empty: no lines."),
        ("--target test.en --batch-size 0", "`--batch-size` must be a whole number of at least 1"),
    ],
)
def test_score_mistakes_are_one_line_with_exit_code_2(folder, capsys, arguments, message):
    """All of them are reported before the model is opened."""
    (folder / "longer").write_text("line\n" * 5)
    (folder / "empty").write_text("")
    assert score("no model", *arguments.split()) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith(f"keras-transformer: {message}")
    assert complaint.count("\n") == 1
