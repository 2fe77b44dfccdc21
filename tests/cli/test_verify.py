"""The command `keras-transformer verify`."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from keras_transformer._utils.console import render
from keras_transformer.cli.main import main
from keras_transformer.cli.verify import draw_verification
from keras_transformer.export.golden import GoldenRow
from keras_transformer.export.manifest import read_manifest
from keras_transformer.export.verification import Check, Verification
from tests.export.small_export import NAMES, write_small_export

COMMAND = pathlib.Path(sys.executable).with_name("keras-transformer")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The small export <folder>/small/1; tests must not change it."""
    return write_small_export(tmp_path_factory.mktemp("Grüße & mehr") / "small" / "1")


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """The current directory, with a copy that a test may damage."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(written, tmp_path / "small" / "1")
    return tmp_path


def test_verify_prints_json(written):
    """Runs in a pipe, without a locale, below a path with spaces and accents."""
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


def test_verify_prints_plain_tables_in_a_pipe(written):
    manifest = read_manifest(written)
    golden = [
        GoldenRow(pair["signature"], pair["inputs"], pair["outputs"], pair["outputs"], True)
        for pair in manifest["golden"]
    ]
    manifest["quality"] = {"test": {"bleu": 31.5, "worst": "\x1b[31m[bold]red"}}
    checks = (Check("files", True, "5 files"), Check("ops", True, "[blue]all allowed"))
    verification = Verification(written, checks, manifest, 5_000, tuple(golden))
    lines = render(lambda console: draw_verification(console, verification)).splitlines()
    lines = [line.rstrip() for line in lines]
    assert lines[0] == "Transformer small, version 1"
    assert "files  ok  5 files" in lines
    assert "ops    ok  [blue]all allowed" in lines
    assert "test bleu   31.5" in lines
    assert any(
        re.match(r"n_best +text: string \[B\] +text: string \[B, N\]", line) for line in lines
    )
    assert "test worst  \\x1b[31m[bold]red" in lines
    assert [line for line in lines if line.startswith("serving_default  text ['guten', '', 'grü")]
    assert lines[-1] == f"All checks passed: {written}"
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
        ("model.zip", "model.zip: an archive."),
        ("cut", "cut: damaged: saved_model.pb: 4 bytes, but "),
        ("zero", "zero: damaged: saved_model.pb: 0 bytes, but "),
        ("half", "half: damaged: variables/variables.index: missing."),
        ("foreign", "foreign: no assets.extra/manifest.json"),
        ("more", "more: notes\\x1b[31m: not in the manifest."),
        ("twice", "twice: 02 and 2 are the same version to TensorFlow Serving"),
    ],
)
def test_verify_mistakes_are_one_line_with_exit_code_2(folder, capsys, argument, message):
    make_broken(folder)
    for options in ([], ["--json"]):
        assert main(["verify", argument, *options]) == 2
        printed, complaint = capsys.readouterr()
        assert printed == ""
        assert complaint.startswith(f"keras-transformer: {message}")
        assert complaint.count("\n") == 1
