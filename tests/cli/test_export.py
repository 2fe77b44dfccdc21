"""The command `keras-transformer export`."""

import dataclasses
import resource

import pytest

from keras_transformer.cli.main import main
from keras_transformer.export import TrainedModel
from tests.inference.small_language_model import save_language_model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beams", "0"], "`--beams` must be"),
        (["--max-length", "0"], "`--max-length` must be"),
        (["--min-length", "9", "--max-length", "3"], "`--min-length` must be at most"),
        (["--repetition-penalty", "0.5"], "`--repetition-penalty` must be at least 1"),
        (["--max-source-tokens", "0"], "`--max-source-tokens` must be"),
        (["--version", "-1"], "`--version` must be"),
        (["--length-penalty", "nan"], "`--length-penalty` must"),
    ],
)
def test_export_with_invalid_settings_exits_with_2(tmp_path, capsys, options, message):
    assert main(["export", str(tmp_path), "--to", str(tmp_path / "to"), *options]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "to").exists()


def test_export_without_a_run_exits_with_2(tmp_path, capsys):
    (tmp_path / "model.keras").write_bytes(b"PK")
    for name in ("nowhere", "model.keras"):
        assert main(["export", str(tmp_path / name), "--to", str(tmp_path / "to")]) == 2
        assert "no trained model here" in capsys.readouterr().err


def test_export_with_a_search_against_the_recipe_exits_with_2(phrases_run, tmp_path, capsys):
    """Each of them is valid alone."""
    recipe = {"evaluation": {"search": {"max_length": 10}}}
    dataclasses.replace(TrainedModel.load(phrases_run), recipe=recipe).save(tmp_path)
    options = ["--to", str(tmp_path / "to"), "--min-length", "12"]
    assert main(["export", str(tmp_path), *options]) == 2
    said = capsys.readouterr().err
    assert "search of the recipe: `--min-length` must be at most" in said
    assert said.count("\n") == 1


def test_export_on_a_full_disk_exits_with_1(tmp_path, capsys):
    run = save_language_model(tmp_path / "story")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        assert main(["export", str(run), "--to", str(tmp_path / "to")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capsys.readouterr().err
    assert said.endswith("to: File too large. Fix the cause and export again.\n")
    assert not (tmp_path / "to").exists()


def test_portable_export_of_sentencepiece_exits_with_2(phrases_run, tmp_path, capsys):
    assert main(["export", str(phrases_run), "--to", str(tmp_path / "to"), "--portable"]) == 2
    assert "needs a tokenizer of bytes" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_export_prints_its_path_and_the_next_commands(bytes_export):
    assert bytes_export.with_name("said.txt").read_text() == (
        f"Exported: {bytes_export}/7\n"
        f"Next: keras-transformer verify {bytes_export}/7\n"
        f"      keras-transformer translate {bytes_export}/7 < FILE\n"
    )


def test_export_in_an_unknown_format_exits_with_2(phrases_run, tmp_path, capsys):
    options = ["--to", str(tmp_path / "to"), "--format", "onx"]
    assert main(["export", str(phrases_run), *options]) == 2
    said = capsys.readouterr().err
    assert "`--format`" in said
    assert "'saved_model'" in said
