"""`keras-transformer explain`: page, numbers, exit codes."""

import json

import pytest

from keras_transformer.cli.main import main
from tests.inference.small_language_model import save_language_model
from tests.inference.test_attention_maps import PageReader


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_translation_is_explained_on_a_page(folder, phrases_run, capsys):
    assert main(["explain", str(phrases_run), "zwei rote Hunde", "--draws", "10"]) == 0
    printed, complaint = capsys.readouterr()
    assert complaint == ""
    translation, headline, *reasons, where = printed.splitlines()
    assert translation == "two red dogs"
    assert headline
    assert "gradient × input" in reasons[0]
    assert where.endswith("explanation.html")
    page = (folder / "explanation.html").read_text(encoding="utf-8")
    assert PageReader(page).open == []
    assert headline in page
    assert '<dd dir="auto">two red dogs</dd>' in page


def test_numbers_are_printed_and_reproducible(folder, phrases_run, capsys):
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
    # The source does not contain "cats".
    by_token = dict(zip(found["target_tokens"], found["probabilities"], strict=True))
    assert min(by_token.values()) < 0.01 < 0.9 < max(by_token.values())
    assert list(folder.iterdir()) == []


def test_export_is_refused(folder, capsys):
    (folder / "phrases" / "1").mkdir(parents=True)
    (folder / "phrases" / "1" / "saved_model.pb").touch()
    for path in ("phrases", "phrases/1"):
        assert main(["explain", path, "zwei"]) == 2
        complaint = capsys.readouterr().err
        assert complaint.startswith(f"keras-transformer: {path}: this is an export")
        assert complaint.count("\n") == 1


def test_language_model_is_refused(folder, capsys):
    save_language_model(folder / "story")
    assert main(["explain", "story", "once"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("keras-transformer: story: ")
    assert "LanguageModel" in complaint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no model", "zwei"], "no model/model: "),
        (["no model", " "], "TEXT is blank"),
        (["no model", "a", "--draws", "0"], "`--draws` must be "),
        (["no model", "a", "--seed", "-1"], "`--seed` must be "),
        (["no model", "a", "--output", "no/page.html"], "no/page.html: "),
    ],
)
def test_mistake_is_one_line_and_exit_code_2(folder, capsys, arguments, message):
    assert main(["explain", *arguments]) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith(f"keras-transformer: {message}")
    assert complaint.count("\n") == 1
