"""The manifest: writing, reading, and detection of changes of it and of the files that it lists."""

import hashlib
import json
import os
import pathlib
import shutil
import socket

import numpy as np
import pytest

from keras_transformer._utils.errors import UserError
from keras_transformer.export.manifest import MANIFEST, check_files, read_manifest, write_manifest
from tests.export.small_export import manifest_content

GOLDEN = [{"signature": "encode", "inputs": {"text": ["a"]}, "outputs": {"embedding": [[1.0]]}}]
DATA = "variables/variables.data-00000-of-00001"
INDEX = "variables/variables.index"


def refusal_of(function, *arguments):
    with pytest.raises(UserError) as refusal:
        function(*arguments)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def rewrite(directory, change):
    """Changes the manifest and its own sha256, as an adversary would."""
    path = directory / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    del manifest["sha256"]
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest), encoding="utf-8")


def test_manifest_lists_every_other_file_with_its_sha256(export):
    manifest = read_manifest(export)
    assert manifest["format"] == 1
    assert list(manifest["files"]) == [
        "assets.extra/tf_serving_warmup_requests",
        "fingerprint.pb",
        "saved_model.pb",
        DATA,
        INDEX,
    ]
    for name, entry in manifest["files"].items():
        content = (export / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert check_files(export, manifest) == sum(
        (export / name).stat().st_size for name in manifest["files"]
    )


def test_read_manifest_returns_the_written_content(tmp_path):
    content = manifest_content(GOLDEN, recipe={"steps": 3, "10": 1, "9": 2}, name="Grüße 日本")
    write_manifest(tmp_path, content)
    manifest = read_manifest(tmp_path)
    assert {key: manifest[key] for key in content} == content


def test_write_manifest_converts_keys_and_tuples_before_hashing(tmp_path):
    write_manifest(tmp_path, manifest_content(GOLDEN, quality={10: (1, 2), 9: 0.1}))
    assert read_manifest(tmp_path)["quality"] == {"10": [1, 2], "9": 0.1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Perceiver"}, "'kind' must be one of .*Transformer.* got 'Perceiver'"),
        ({"golden": []}, "no golden pairs"),
        ({"golden": [{"signature": "encode"}]}, "no golden pairs"),
        ({"ops": {}}, "no list 'outside_core' in 'ops'"),
        ({"created_with": {}}, "no version of keras_transformer in 'created_with'"),
        ({"xla": None}, "'xla' is missing or wrong"),
        ({"quality": float("nan")}, "JSON"),
    ],
)
def test_write_manifest_with_invalid_content_raises_an_error(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        write_manifest(tmp_path, {**manifest_content(GOLDEN), **changes})
    assert not (tmp_path / MANIFEST).exists()


@pytest.mark.parametrize("key", manifest_content(GOLDEN))
def test_read_manifest_without_a_key_raises_an_error(export, key):
    rewrite(export, lambda manifest: manifest.pop(key))
    assert f"damaged: {MANIFEST}: " in refusal_of(read_manifest, export)


def test_read_manifest_without_a_file_raises_an_error(export):
    (export / MANIFEST).unlink()
    message = refusal_of(read_manifest, export)
    assert message.startswith(f"{export}: no {MANIFEST}: ")


@pytest.mark.parametrize("length", [0, 1, 100, 1000, -2])
def test_read_manifest_of_a_truncated_file_raises_an_error(export, length):
    content = (export / MANIFEST).read_bytes()
    (export / MANIFEST).write_bytes(content[:length])
    assert f"damaged: {MANIFEST}: not JSON" in refusal_of(read_manifest, export)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'"text"', b'{"format": true}', b"\xff\xfe\x00"])
def test_read_manifest_of_other_json_raises_an_error(export, content):
    (export / MANIFEST).write_bytes(content)
    assert f"damaged: {MANIFEST}: " in refusal_of(read_manifest, export)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 5_000, b'{"format":' * 50_000])
def test_read_manifest_of_hostile_json_raises_an_error(export, content):
    (export / MANIFEST).write_bytes(content)
    assert f"damaged: {MANIFEST}: not JSON" in refusal_of(read_manifest, export)


def test_read_manifest_detects_every_flipped_bit(written_export, export):
    """Flips in white space that change no value are not errors."""
    content = (written_export / MANIFEST).read_bytes()
    original = json.loads(content)
    positions = np.random.default_rng(3).integers(0, len(content), 400)
    for position in positions:
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        (export / MANIFEST).write_bytes(changed)
        try:
            says_the_same = json.loads(changed) == original
        except ValueError:
            says_the_same = False
        if not says_the_same:
            refusal_of(read_manifest, export)


def test_read_manifest_of_a_newer_format_names_formats_and_writer(export):
    def change(manifest):
        manifest["format"] = 3
        manifest["created_with"]["keras_transformer"] = "7.1.0"

    rewrite(export, change)
    message = refusal_of(read_manifest, export)
    assert "in format 3, but this package reads format 1. keras_transformer 7.1.0 wrote" in message


@pytest.mark.parametrize(
    "name", ["../other/saved_model.pb", "/etc/passwd", "a/../../b", "", ".", "./a", "a//b", "a\0b"]
)
def test_read_manifest_refuses_paths_outside_the_directory(export, name):
    rewrite(export, lambda manifest: manifest["files"].update({name: {"sha256": "", "bytes": 1}}))
    message = refusal_of(read_manifest, export)
    assert f"{MANIFEST}: names a path that is not plainly inside the directory" in message


@pytest.mark.parametrize("entry", [None, {}, {"sha256": "ab", "bytes": 1}, {"bytes": True}])
def test_read_manifest_with_a_file_without_sha256_raises_an_error(export, entry):
    rewrite(export, lambda manifest: manifest["files"].update({INDEX: entry}))
    assert f"damaged: {MANIFEST}: no sha256 and bytes of {INDEX}" in refusal_of(
        read_manifest, export
    )


@pytest.mark.parametrize("name", [DATA, INDEX, "saved_model.pb", "fingerprint.pb"])
def test_check_files_detects_missing_truncated_and_changed_files(export, name):
    manifest, path = read_manifest(export), export / name
    content = path.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert f"damaged: {name}: {length:,} bytes, but {len(content):,} were written" in (
            refusal_of(check_files, export, manifest)
        )
    path.write_bytes(content + b"\0")
    assert f"damaged: {name}: {len(content) + 1:,} bytes" in refusal_of(
        check_files, export, manifest
    )
    for position in np.linspace(0, len(content) - 1, 25).astype(int):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        assert f"damaged: {name}: its content has changed (sha256)" in refusal_of(
            check_files, export, manifest
        )
    path.write_bytes(bytes(len(content)))
    assert f"damaged: {name}: its content has changed" in refusal_of(check_files, export, manifest)
    path.unlink()
    assert f"damaged: {name}: missing" in refusal_of(check_files, export, manifest)


def test_check_files_detects_files_of_another_export(export, other_export):
    manifest = read_manifest(export)
    shutil.copy(other_export / DATA, export / DATA)
    assert f"damaged: {DATA}: " in refusal_of(check_files, export, manifest)


def test_check_files_compares_sizes_before_reading(export):
    # A sparse file of ten gigabytes; hashing it would take most of a minute.
    os.truncate(export / DATA, 10 << 30)
    assert f"damaged: {DATA}: 10,737,418,240 bytes, but" in refusal_of(
        check_files, export, read_manifest(export)
    )


def test_read_manifest_refuses_a_huge_file(export):
    os.truncate(export / MANIFEST, 10 << 30)
    assert "bytes, but at most 16,777,216 are read" in refusal_of(read_manifest, export)


@pytest.mark.parametrize("name", ["notes.txt", "assets/more.txt", "saved_model.pbtxt"])
def test_check_files_refuses_unlisted_files(export, name):
    (export / name).write_text("more")
    message = refusal_of(check_files, export, read_manifest(export))
    assert f"{name}: not in the manifest." in message


def test_check_files_escapes_control_characters_in_names(export):
    (export / "a\x1b[2Jb\nc").write_text("more")
    message = refusal_of(check_files, export, read_manifest(export))
    assert "a\\x1b[2Jb\\nc: not in the manifest" in message


@pytest.mark.parametrize("name", [DATA, MANIFEST, "assets", "more"])
def test_check_files_refuses_symbolic_links(export, name):
    manifest, path = read_manifest(export), export / name
    if path.is_dir():
        path.rmdir()
    elif path.exists():
        path.rename(export.parent / "elsewhere")
    path.symlink_to(export.parent / "elsewhere")
    assert f"{name}: a symbolic link" in refusal_of(check_files, export, manifest)
    if name == MANIFEST:
        assert f"{name}: a symbolic link" in refusal_of(read_manifest, export)


def test_check_files_refuses_a_pipe_without_waiting(export):
    manifest = read_manifest(export)
    (export / DATA).unlink()
    os.mkfifo(export / DATA)
    assert DATA in refusal_of(check_files, export, manifest)
    rewrite(export, lambda manifest: manifest["files"][DATA].update({"bytes": 0}))
    assert f"{DATA}: not a regular file" in refusal_of(check_files, export, read_manifest(export))


def test_recipe_of_an_export_has_no_directories_and_nothing_about_the_machine(export):
    recipe = {
        "name": "dates",
        "data": {
            "train": ["/home/me/secret/a.en", "corpus/a.de"],
            "validation": ["/home/me/b.en"],
            "test": {"news": ["/data/c.en"]},
            "format": "parallel",
            "columns": ["en/de"],
            "cache": "/home/me/cache",
        },
        "text": {"tokenizer": "bytes", "options": {"file": "/home/me/words.txt", "size": 3}},
        "training": {"steps": 3},
        "evaluation": {"bleu_tokens": "13a"},
        "checkpoints": {"every": 3},
        "export": {"to": "/home/me/saved_models"},
        "tensorboard": {"every": 2},
    }
    content = {**read_manifest(export), "recipe": recipe}
    write_manifest(export, {name: content[name] for name in content if name != "files"})
    manifest = read_manifest(export)
    assert "/home" not in json.dumps(manifest)
    assert manifest["recipe"] == {
        "name": "dates",
        "data": {
            "train": ["a.en", "a.de"],
            "validation": ["b.en"],
            "test": {"news": ["c.en"]},
            "format": "parallel",
            "columns": ["en/de"],
            "cache": None,
        },
        "text": {"tokenizer": "bytes", "options": {"file": "words.txt", "size": 3}},
        "training": {"steps": 3},
        "evaluation": {"bleu_tokens": "13a"},
    }
    assert recipe["data"]["cache"] == "/home/me/cache", "the run's own recipe must not change"


def test_exported_files_name_neither_user_nor_machine_nor_directory(phrases_export, phrases_run):
    private = {socket.gethostname(), str(pathlib.Path.home()), str(phrases_run), os.getcwd()}
    for path in phrases_export.rglob("*"):
        if path.is_file():
            found = [
                text for text in private if len(text) > 5 and text.encode() in path.read_bytes()
            ]
            assert found == [], path
