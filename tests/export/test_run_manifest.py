"""Manifests of directories whose files are replaced one at a time, also by processes that die."""

import json
import os
import pathlib
import re
import shutil

import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.manifest import own_sha256
from keras_transformer.export.run_manifest import RUN_MANIFEST, RunManifest


@pytest.fixture
def directory(tmp_path):
    """A directory with two files and a manifest of them."""
    path = tmp_path / "run"
    (path / "tokenizers").mkdir(parents=True)
    manifest = RunManifest.new(path)
    manifest.write("recipe.yaml", b"name: dates")
    (path / "tokenizers" / "vocabulary.txt").write_bytes(b"the\nhouse\n")
    manifest.add("tokenizers")
    return path


def rewrite(directory, **changes):
    """Changes the manifest, with a sum of its own that fits."""
    path = directory / RUN_MANIFEST
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({**content, "sha256": own_sha256(content)}))


class KilledError(BaseException):
    """Stands for the end of the process."""


def die_at(number, monkeypatch):
    """Ends with `KilledError` before or after the change of the directory with this number.

    Even numbers are before a change, odd ones after it.
    """
    changes = []

    def dying(change):
        def call(*args, **kwargs):
            for is_done in (False, True):
                if len(changes) == number:
                    raise KilledError
                changes.append(is_done)
                if not is_done:
                    result = change(*args, **kwargs)
            return result

        return call

    monkeypatch.setattr(pathlib.Path, "replace", dying(pathlib.Path.replace))
    monkeypatch.setattr(pathlib.Path, "unlink", dying(pathlib.Path.unlink))
    monkeypatch.setattr(shutil, "rmtree", dying(shutil.rmtree))
    return changes


STEPS = {
    "replace": lambda manifest: manifest.write("recipe.yaml", b"name: numbers"),
    "new": lambda manifest: manifest.write("result.json", b"{}"),
    "remove": lambda manifest: manifest.remove("recipe.yaml"),
    "remove a directory": lambda manifest: manifest.remove("tokenizers"),
    "forget": lambda manifest: manifest.forget("recipe.yaml"),
    "add": lambda manifest: manifest.add("notes.txt"),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_process_that_dies_at_any_moment_leaves_files_that_agree(directory, step, monkeypatch):
    (directory / "notes.txt").write_bytes(b"of the training")
    original = directory.with_name("original")
    shutil.copytree(directory, original)
    for number in range(100):
        shutil.rmtree(directory)
        shutil.copytree(original, directory)
        with monkeypatch.context() as patches:
            die_at(number, patches)
            try:
                step(RunManifest.read(directory))
            except KilledError:
                is_complete = False
            else:
                is_complete = True
        RunManifest.read(directory).check()
        step(RunManifest.read(directory))  # the next process does the same again
        manifest = RunManifest.read(directory)
        manifest.check()
        assert json.loads((directory / RUN_MANIFEST).read_text())["pending"] == {}
        if is_complete:
            break
    assert number >= 2, "no moment was tried"


@pytest.mark.parametrize("name", ["recipe.yaml", "tokenizers/vocabulary.txt", RUN_MANIFEST])
def test_every_flipped_bit_is_found(directory, name):
    path = directory / name
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(UserError) as refused:
                RunManifest.read(directory).check()
            text = str(refused.value)
            assert text.startswith(str(path))
            assert text.isprintable()
    path.write_bytes(content)
    RunManifest.read(directory).check()


def test_files_that_are_missing_or_cut_are_named(directory):
    (directory / "recipe.yaml").write_bytes(b"name:")
    with pytest.raises(UserError, match=r"recipe\.yaml: damaged: 5 bytes, but 11 were"):
        RunManifest.read(directory).check()
    RunManifest.read(directory).check("tokenizers")
    (directory / "tokenizers" / "vocabulary.txt").unlink()
    with pytest.raises(UserError, match=r"vocabulary\.txt: damaged: missing"):
        RunManifest.read(directory).check("tokenizers")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/hostname")])
def test_pipes_and_links_in_place_of_files_are_refused_at_once(directory, make):
    for name in ("recipe.yaml", RUN_MANIFEST):
        (directory / name).unlink()
        make(directory / name)
        with pytest.raises(UserError, match=re.escape(name)):
            RunManifest.read(directory).check()


def test_a_file_that_is_not_in_the_manifest_is_found(directory):
    RunManifest.read(directory).check_no_others()
    (directory / "tokenizers" / "extra.txt").touch()
    with pytest.raises(UserError, match=r"tokenizers/extra\.txt: not in the manifest"):
        RunManifest.read(directory).check_no_others()


def test_a_directory_without_a_manifest_is_answered_with_what_to_do(directory):
    (directory / RUN_MANIFEST).unlink()
    with pytest.raises(UserError) as refused:
        RunManifest.read(directory)
    assert f"keras-transformer seal {directory}" in refused.value.fix


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"format": True},
        {"format": "1"},
        {"files": []},
        {"pending": None},
        {"files": {"../recipe.yaml": {"sha256": "0" * 64, "bytes": 1}}},
        {"files": {"/etc/passwd": {"sha256": "0" * 64, "bytes": 1}}},
        {"files": {"recipe.yaml": None}},
        {"files": {"recipe.yaml": {"sha256": "0", "bytes": 1}}},
        {"files": {"recipe.yaml": {"sha256": "0" * 64, "bytes": -1}}},
    ],
    ids=str,
)
def test_a_manifest_of_wrong_types_is_refused(directory, changes):
    rewrite(directory, **changes)
    with pytest.raises(UserError, match=RUN_MANIFEST):
        RunManifest.read(directory)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": 1, "a": 2}', "NaN"])
def test_a_manifest_that_is_not_plain_json_is_refused(directory, text):
    (directory / RUN_MANIFEST).write_text(text)
    with pytest.raises(UserError, match=f"{RUN_MANIFEST}: damaged"):
        RunManifest.read(directory)
