"""`keras-transformer verify`, as a person meets it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from keras_transformer.cli.main import main
from keras_transformer.cli.verify import as_text
from keras_transformer.export.golden import GoldenRow
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.verification import Check, Verification
from tests.export.small_export import NAMES, write_small_export

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Nobody changes this one: <folder>/small/1."""
    return write_small_export(tmp_path_factory.mktemp("Grüße & mehr") / "small" / "1")


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """The current directory, with copies to damage."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(written, tmp_path / "small" / "1")
    return tmp_path


def test_json_from_the_installed_command(written):
    """In a pipe, on a dumb terminal without a locale, below a path with spaces and accents."""
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C"}
    result = subprocess.run(
        [COMMAND, "verify", "small", "--json"],
        cwd=written.parent.parent,
        env=environment,
        capture_output=True,
    )
    assert (result.returncode, result.stderr.decode()) == (0, "")
    report = json.loads(result.stdout)
    assert report["directory"] == "small/1"
    assert (report["name"], report["version"], report["kind"]) == ("small", 1, "Transformer")
    assert [check["ok"] for check in report["checks"]] == [True] * 9
    assert report["ops_outside_core"] == []
    assert report["quality"] == {"bleu": 31.5}
    assert [row["signature"] for row in report["golden"]] == list(NAMES)
    assert all(row["ok"] for row in report["golden"])


def test_the_tables_are_plain_in_a_pipe(written):
    manifest = read_manifest(written)
    golden = [
        GoldenRow(pair["signature"], pair["inputs"], pair["outputs"], pair["outputs"], True)
        for pair in manifest["golden"]
    ]
    manifest["quality"] = {"test": {"bleu": 31.5, "worst": "\x1b[31m[bold]red"}}
    checks = (Check("files", True, "5 files"), Check("ops", True, "[blue]all allowed"))
    lines = as_text(Verification(written, checks, manifest, 5_000, tuple(golden))).splitlines()
    lines = [line.rstrip() for line in lines]
    assert lines[0] == "Transformer small, version 1"
    assert "files  ok  5 files" in lines
    assert "ops    ok  [blue]all allowed" in lines
    assert "test bleu   31.5" in lines
    assert "test worst  \\x1b[31m[bold]red" in lines
    assert [line for line in lines if line.startswith("serving_default  text ['guten', '', 'grü")]
    assert max(map(len, lines)) <= 100


def make_broken(folder):
    whole = folder / "small" / "1"

    def copy(name):
        return shutil.copytree(whole, folder / name)

    (folder / "empty").mkdir()
    (folder / "model.zip").write_bytes(b"PK\x03\x04")
    (copy("cut") / "saved_model.pb").write_bytes(b"\x08\x01\x12\xff")
    (copy("zero") / "saved_model.pb").write_bytes(b"")
    (copy("half") / "variables" / "variables.index").unlink()
    (copy("foreign") / "assets.extra" / "manifest.json").unlink()
    (copy("more") / "notes\x1b[31m").write_text("red")
    for name in ("twice/2", "twice/02"):
        copy(name)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere", "nowhere: no such directory (the current directory is "),
        ("empty", "empty: no saved_model.pb in empty, and no version directory."),
        ("model.zip", "model.zip: an archive. Nothing is unpacked here"),
        ("cut", "cut: damaged: saved_model.pb: not a whole protobuf"),
        ("zero", "zero: damaged: saved_model.pb: zero bytes. Copy the directory again"),
        ("half", "half: damaged: variables/variables.index: missing."),
        ("foreign", "foreign: no assets.extra/manifest.json: copied in part"),
        ("more", "more: notes\\x1b[31m: not in the manifest."),
        ("twice", "twice: 02 and 2 are the same version to TensorFlow Serving"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(folder, capsys, argument, message):
    make_broken(folder)
    for options in ([], ["--json"]):
        assert main(["verify", argument, *options]) == 2
        printed, complaint = capsys.readouterr()
        assert printed == ""
        assert complaint.startswith(f"keras-transformer: {message}")
        assert complaint.count("\n") == 1
