"""`keras-transformer explain`, as a person meets it."""

import json

import pytest

from keras_transformer.cli.main import main
from tests.inference.small_language_model import save_language_model
from tests.inference.test_attention import PageReader


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_translation_is_explained_on_a_page(folder, phrases_run, capsys):
    assert main(["explain", str(phrases_run), "zwei rote Hunde", "--draws", "10"]) == 0
    printed, told = capsys.readouterr()
    assert told == ""
    translation, headline, *reasons, where = printed.splitlines()
    assert translation == "two red dogs"
    assert headline
    assert reasons[0].startswith("Attention and gradient × input agree ")
    assert where == "All of it: explanation.html"
    page = (folder / "explanation.html").read_text(encoding="utf-8")
    assert PageReader(page).open == []
    assert headline in page
    assert '<dd dir="auto">two red dogs</dd>' in page


def test_numbers_are_printed_and_repeat(folder, phrases_run, capsys):
    command = ["explain", str(phrases_run), "zwei rote Hunde", "--target", "two red cats"]
    for _ in range(2):
        assert main([*command, "--json", "--draws", "5", "--seed", "3"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    found = json.loads(first)
    assert found["target"] == "two red cats"
    assert not found["is_own"]
    assert found["seed"] == 3
    assert found["verdict"]["headline"]
    # "cats" is what the source does not say.
    by_token = dict(zip(found["target_tokens"], found["probabilities"], strict=True))
    assert min(by_token.values()) < 0.01 < 0.9 < max(by_token.values())
    assert list(folder.iterdir()) == []


def test_an_export_cannot_be_looked_into(folder, capsys):
    (folder / "phrases" / "1").mkdir(parents=True)
    (folder / "phrases" / "1" / "saved_model.pb").touch()
    for path in ("phrases", "phrases/1"):
        assert main(["explain", path, "zwei"]) == 2
        assert capsys.readouterr().err == (
            f"keras-transformer: {path}: is an export, a graph without gradients in which no "
            "weight can be changed. Give the directory of the run that it was made from.\n"
        )


def test_a_language_model_has_no_source(folder, capsys):
    save_language_model(folder / "story")
    assert main(["explain", "story", "once"]) == 2
    assert capsys.readouterr().err == (
        "keras-transformer: story: is a LanguageModel, which translates nothing. Name a model of "
        "source and target, such as a Transformer.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no model", "zwei"], "no model/model: holds no trained model, model.json is not there."),
        (["no model", " "], "TEXT is blank: there is nothing to explain."),
        (["no model", "a", "--draws", "0"], "`--draws` must be a whole number of at least 1"),
        (["no model", "a", "--seed", "-1"], "`--seed` must be a whole number of at least 0"),
        (["no model", "a", "--output", "no/page.html"], "no/page.html: there is no directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(folder, capsys, arguments, message):
    assert main(["explain", *arguments]) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith(f"keras-transformer: {message}")
    assert complaint.count("\n") == 1
