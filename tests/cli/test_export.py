"""`keras-transformer export` as its users call it."""

import pytest

from keras_transformer.cli.main import main


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
    assert main(["export", str(tmp_path / "nowhere"), "--to", str(tmp_path / "to")]) == 2
    assert "holds no trained model" in capsys.readouterr().err


def test_portable_needs_bytes(phrases_run, tmp_path, capsys):
    assert main(["export", str(phrases_run), "--to", str(tmp_path / "to"), "--portable"]) == 2
    assert "needs a tokenizer of bytes" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_what_it_says(bytes_run, tmp_path, capsys):
    to = tmp_path / "models" / "bytes"
    options = ["--beams", "1", "--max-length", "4", "--max-source-tokens", "8"]
    assert main(["export", str(bytes_run), "--to", str(to), *options]) == 0
    assert capsys.readouterr().out == (
        f"Exported: {to}/1\n"
        f"Next: keras-transformer verify {to}/1\n"
        f"      keras-transformer translate {to}/1 < FILE\n"
    )
    assert main(["translate", str(to), "--input", __file__, "--output", str(tmp_path / "o")]) == 0
    with open(__file__, encoding="utf-8") as source, (tmp_path / "o").open() as target:
        assert len(source.readlines()) == len(target.readlines())
