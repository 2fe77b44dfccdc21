"""`keras-transformer export` as its users call it."""

import dataclasses
import resource

import pytest

from keras_transformer.cli.main import main
from keras_transformer.export import TrainedModel


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beams", "0"], "`--beams` must be"),
        (["--max-length", "0"], "`--max-length` must be"),
        (["--min-length", "9", "--max-length", "3"], "`--min-length` must not be more than"),
        (["--repetition-penalty", "0.5"], "`--repetition-penalty` must be at least 1"),
        (["--max-source-tokens", "0"], "must be"),
        (["--version", "-1"], "`--version` must be"),
        (["--length-penalty", "nan"], "`--length-penalty` must"),
    ],
)
def test_settings_that_make_no_sense(tmp_path, capsys, options, message):
    assert main(["export", str(tmp_path), "--to", str(tmp_path / "to"), *options]) == 2
    said = capsys.readouterr().err
    assert message.replace("`--", "--").replace("`", "") in said.replace("`", "")
    assert said.count("\n") == 1
    assert not (tmp_path / "to").exists()


def test_no_run(tmp_path, capsys):
    (tmp_path / "model.keras").write_bytes(b"PK")
    for name in ("nowhere", "model.keras"):
        assert main(["export", str(tmp_path / name), "--to", str(tmp_path / "to")]) == 2
        assert "holds no trained model" in capsys.readouterr().err


def test_settings_that_do_not_go_with_those_of_the_recipe(phrases_run, tmp_path, capsys):
    """Each makes sense alone."""
    recipe = {"evaluation": {"search": {"max_length": 10}}}
    dataclasses.replace(TrainedModel.load(phrases_run), recipe=recipe).save(tmp_path)
    options = ["--to", str(tmp_path / "to"), "--min-length", "12"]
    assert main(["export", str(tmp_path), *options]) == 2
    said = capsys.readouterr().err
    assert "With the search of the run's recipe: --min-length must not be more than" in said
    assert said.count("\n") == 1


def test_a_full_disk(phrases_run, tmp_path, capsys):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        assert main(["export", str(phrases_run), "--to", str(tmp_path / "to")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capsys.readouterr().err
    assert said.endswith("to: File too large. Put that right, and export again.\n")
    assert not (tmp_path / "to").exists()


def test_portable_needs_bytes(phrases_run, tmp_path, capsys):
    assert main(["export", str(phrases_run), "--to", str(tmp_path / "to"), "--portable"]) == 2
    assert "needs a tokenizer of bytes" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_what_it_says(bytes_export):
    assert bytes_export.with_name("said.txt").read_text() == (
        f"Exported: {bytes_export}/7\n"
        f"Next: keras-transformer verify {bytes_export}/7\n"
        f"      keras-transformer translate {bytes_export}/7 < FILE\n"
    )
