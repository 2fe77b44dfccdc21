"""The command `keras-transformer translate`."""

import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys

import pytest

from keras_transformer.cli.main import main
from keras_transformer.cli.translate import format_translation
from keras_transformer.inference import Translation

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")

PAIRS = {
    "zwei rote Hunde": "two red dogs",
    "": "",
    "neun graue Kühe und drei blaue Katzen": "nine gray cows and three blue cats",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in PAIRS), encoding="utf-8")
    return tmp_path


def translate(model, *arguments):
    return main(["translate", str(model), *arguments])


# In its own process.


def test_translate_answers_each_line_of_a_pipe_at_once(phrases_export, tmp_path):
    """Each line is answered before the next one, in UTF-8, with nothing on standard error."""
    process = subprocess.Popen(
        [COMMAND, "translate", phrases_export],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        for line, answer in PAIRS.items():
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == answer + "\n"
        # As `head` does: the next answer has no reader.
        process.stdout.close()
        process.stdin.write("fünf grüne Vögel\n")
        process.stdin.flush()
        assert process.wait() == 0
        assert process.stderr.read() == ""


# In this process: `main` returns the exit code.


def test_translate_of_a_run_with_many_options(folder, phrases_run, capsys):
    packed = folder / "packed lines"
    packed.write_bytes(gzip.compress((folder / "test.de").read_bytes()))
    (folder / "Grüße.tsv").write_text("old")
    (folder / "link.tsv").symlink_to("Grüße.tsv")
    options = "--output link.tsv --beams 3 --n-best 2 --scores --attention attention.html"
    assert translate(phrases_run, "--input", str(packed), *options.split()) == 0
    assert capsys.readouterr() == ("", "")
    rows = [line.split("\t") for line in (folder / "Grüße.tsv").read_text().splitlines()]
    best = {}
    for number, score, text in rows:
        best.setdefault(number, []).append((float(score), text))
    assert [found[0][1] for found in best.values()] == list(PAIRS.values())
    assert best["2"] == [(0.0, "")]
    assert [len(found) for found in best.values()] == [2, 1, 2]
    assert all(found == sorted(found, reverse=True) for found in best.values())
    page = (folder / "attention.html").read_text(encoding="utf-8")
    # The blank line is not drawn.
    assert page.count("<section>") == 2
    assert "neun graue Kühe" in page
    assert sorted(os.listdir(folder)) == [
        "Grüße.tsv", "attention.html", "link.tsv", "packed lines", "test.de",
    ]  # fmt: skip
    assert (folder / "link.tsv").is_symlink()


def test_translate_of_an_export_writes_json_lines_and_a_picture(folder, phrases_export, capsys):
    (folder / "test.de").write_bytes("zwei rote Hunde\nzwei \xff Hunde\n".encode("latin-1"))
    options = "--format jsonl --scores --attention picture.png --encoding-errors replace"
    assert translate(phrases_export, "--input", "test.de", *options.split()) == 0
    printed, told = capsys.readouterr()
    first, second = map(json.loads, printed.splitlines())
    (translation,) = first.pop("translations")
    assert first == {"line": 1, "source": "zwei rote Hunde"}
    assert translation["text"] == "two red dogs"
    assert -0.5 < translation["score"] < 0
    assert second["source"] == "zwei \ufffd Hunde"
    assert told == "test.de: 1 byte sequences were not UTF-8 and became U+FFFD.\n"
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({}, "a b c d\n"),
        ({"format": "text"}, "a b c d\n"),
        ({"format": "tsv"}, "7\ta b c d\n7\té\n"),
        ({"scores": True}, "7\t-0.500000\ta b c d\n7\t-1.250000\té\n"),
        ({"n_best": 2}, "7\ta b c d\n7\té\n"),
        (
            {"format": "jsonl"},
            '{"line": 7, "source": "x", "translations": '
            '[{"text": "a\\tb\\nc\\rd"}, {"text": "é"}]}\n',
        ),
        (
            {"format": "jsonl", "scores": True},
            '{"line": 7, "source": "x", "translations": '
            '[{"text": "a\\tb\\nc\\rd", "score": -0.5}, {"text": "é", "score": -1.25}]}\n',
        ),
    ],
)
def test_format_translation_keeps_lines_and_columns(settings, written):
    translation = Translation("x", ("a\tb\nc\rd", "é"), (-0.5, -1.25))
    arguments = argparse.Namespace(**{"format": None, "scores": False, "n_best": 1, **settings})
    assert format_translation(7, translation, arguments) == written


def test_attention_of_blank_translations_is_not_drawn(folder, capsys, monkeypatch):
    inference, blank = "keras_transformer.inference", Translation(" ", ("",), (0.0,))
    monkeypatch.setattr("keras_transformer.cli.shared.open_model", lambda arguments: None)
    monkeypatch.setattr(f"{inference}.readers.as_sources", lambda lines, *_: lines)
    monkeypatch.setattr(f"{inference}.translate_lines", lambda *_, **options: [blank])
    assert translate("model", "--input", "test.de", "--attention", "picture.png") == 0
    printed, told = capsys.readouterr()
    assert printed == "\n"
    assert told.startswith(f"{folder / 'picture.png'}: not drawn")
    assert not (folder / "picture.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--input missing.de", "missing.de: no such file (the current directory is "),
        ("--input .", ".: is a directory."),
        ("--input latin1.de", "latin1.de:2:3: byte 0xFC is not UTF-8. "),
        ("--input latin1.de", "encoding"),
        ("--input utf16.de", "utf16.de: looks like UTF-16 (BOM FF FE)."),
        ("--input old_mac.de", "old_mac.de:1: a carriage return inside the line"),
        ("--input cut.gz", "cut.gz: gzip ends early, "),
        ("--input test.de --output .", ".: is a directory. "),
        ("--input test.de --output no/where", "no/where: there is no directory "),
        ("--input test.de --output /dev/null", "/dev/null: is not a regular file. Name one with"),
        ("--input test.de --output ./test.de", "./test.de: is already read or written. "),
        (
            "--input test.de --output a.png --attention a.png",
            "a.png: is already read or written. Name another file with --attention.",
        ),
        ("--attention a.svg", "a.svg: a picture of attention must end with .html or .png."),
        ("--attention no/a.png", "no/a.png: there is no directory "),
        ("--n-best 0", "`--n-best` must be a whole number of at least 1; got 0."),
        ("--batch-size 0", "`--batch-size` must be a whole number of at least 1; got 0."),
        ("--n-best 2 --format text", "--format text has one translation a line"),
        ("--scores --format text", "--format text has one translation a line"),
        ("--seed 1", "--seed is for sampling. Give a --temperature"),
        ("--temperature 1 --seed -1", "`--seed` must be a whole number of at least 0; got -1."),
        ("--temperature 1 --seed 2147483648", "`--seed` must be below 2**31; got 2147483648."),
        ("--temperature -1", "`--temperature` must be a finite number of at least 0; got -1.0."),
        ("--temperature 1e300", "`--temperature` must be 0, or from 0.0001 to 10000; got 1e+300."),
        ("--temperature nan", "`--temperature` must be a finite number of at least 0; got nan."),
        ("--temperature 1 --beams 2", "--temperature samples one text. Leave out --n-best"),
        ("--temperature 1 --n-best 2", "--temperature samples one text. Leave out"),
        (
            "--input test.de --beams 2",
            "the search of an export is part of its graph",
        ),
    ],
)
def test_translate_mistakes_are_one_line(folder, phrases_export, capsys, arguments, message):
    (folder / "latin1.de").write_bytes("ja\nGrüße\n".encode("latin-1"))
    (folder / "utf16.de").write_bytes("ja\n".encode("utf-16"))
    (folder / "old_mac.de").write_bytes(b"ja\rnein\r")
    packed = gzip.compress(os.urandom(5000).hex().encode())
    (folder / "cut.gz").write_bytes(packed[: len(packed) // 2])
    before = sorted(os.listdir(folder))
    assert translate(phrases_export, *arguments.split()) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.startswith("keras-transformer: ")
    assert complaint.count("\n") == 1
    assert message in complaint
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--top-p 0.9", "`--top-p` must be left out with the search 'beam', which does not have"),
        ("--top-k 5", "got 5. To sample, give a temperature: `keras-transformer translate --temp"),
        ("--method greedy --top-k 5", "`--top-k` must be left out with the search 'greedy', "),
        ("--temperature 1 --method greedy", "`--method` must be left out with the search 'sampl"),
        ("--method sampling", "; got 'sampling'. Leave it out. To sample, give a temperature"),
        ("--method sampling", "`keras-transformer translate --temperature 1`"),
    ],
)
def test_search_options_that_a_run_does_not_read_are_mistakes(
    folder, phrases_run, capsys, arguments, message
):
    assert translate(phrases_run, "--input", "test.de", *arguments.split()) == 2
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.count("\n") == 1
    assert message in complaint


def test_top_k_with_a_temperature_limits_the_samples_of_a_run(folder, phrases_run, capsys):
    options = ["--input", "test.de", "--temperature", "5", "--top-k", "1"]
    assert translate(phrases_run, *options) == 0
    assert capsys.readouterr().out.splitlines() == list(PAIRS.values())


def test_translate_with_more_n_best_than_beams_exits_with_2(folder, phrases_export, capsys):
    (folder / "kept").write_text("old")
    assert translate(phrases_export, "--input", "test.de", "--n-best", "5", "--output", "kept") == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(
        f"keras-transformer: {phrases_export}: `--n-best` must be at most 4"
    )
    assert complaint.count("\n") == 1
    assert (folder / "kept").read_text() == "old"
    assert sorted(os.listdir(folder)) == ["kept", "test.de"]


def test_translate_without_a_model_exits_with_2(folder, capsys):
    assert translate("nowhere", "--input", "test.de") == 2
    assert "nowhere" in capsys.readouterr().err


def test_translate_with_an_invalid_search_exits_with_2(folder, phrases_run, capsys):
    assert translate(phrases_run, "--input", "test.de", "--beams", "0") == 2
    assert capsys.readouterr().err == (
        "keras-transformer: `--beams` must be a whole number of at least 1; got 0.\n"
    )
