"""`assets.extra/manifest.json`: what an export is, and the sha256 of every file in it.

It tells damage, not malice: who can change a file can write another manifest. What is in the graph
is checked by `graph_ops`.
"""

import hashlib
import json
import os
import pathlib
import re

from keras_transformer._utils.files import atomic_file
from keras_transformer.export.damage import (
    damaged,
    read_bounded,
    refused,
    sha256_of,
    symbolic_link,
    unreadable,
)
from keras_transformer.export.signatures import CONTRACTS

_KINDS = {
    "name": str,
    "version": int,
    "created_with": dict,
    "kind": str,
    "model": object,
    "recipe": object,
    "tokenizers": object,
    "search": object,
    "weights": object,
    "xla": bool,
    "limits": object,
    "ops": dict,
    "quality": object,
    "golden": list,
}


def require_content(content):
    """Checks the content of a manifest, as written or as read; a `ValueError` says what is wrong.

    - name, version: of the export.
    - created_with: the versions of keras_transformer, tensorflow, keras, and of tensorflow_text or
      None if the graph needs none of its ops.
    - kind: the class of the model, which decides the signatures.
    - model, recipe, tokenizers, search, weights, limits, quality: free; None if there is nothing.
    - xla: whether the graph has parts that XLA must compile.
    - ops: {"outside_core": the names of ops that core TensorFlow does not have}.
    - golden: what the model in memory answered, a list of {"signature", "inputs", "outputs"}.
    """
    for key, kind in _KINDS.items():
        if not isinstance(content.get(key), kind) or key not in content:
            raise ValueError(f"{key!r} is missing or wrong")
    if content["kind"] not in CONTRACTS:
        known = ", ".join(CONTRACTS)
        raise ValueError(f"'kind' must be one of {known}; got {content['kind']!r}")
    for package in ("keras_transformer", "tensorflow", "keras", "tensorflow_text"):
        version = content["created_with"].get(package)
        may_be_none = package == "tensorflow_text" and version is None
        if not isinstance(version, str) and not may_be_none:
            raise ValueError(f"no version of {package} in 'created_with'")
    outside_core = content["ops"].get("outside_core")
    if not isinstance(outside_core, list) or not all(isinstance(op, str) for op in outside_core):
        raise ValueError("no list 'outside_core' in 'ops'")
    if not content["golden"] or not all(map(_is_golden_pair, content["golden"])):
        raise ValueError("no golden pairs, or one that is not whole")


def _is_golden_pair(pair):
    return (
        isinstance(pair, dict)
        and isinstance(pair.get("signature"), str)
        and isinstance(pair.get("inputs"), dict)
        and isinstance(pair.get("outputs"), dict)
        and bool(pair["outputs"])
    )


MANIFEST = "assets.extra/manifest.json"
FORMAT = 1

#: Golden pairs are a few sentences, and attention weights between them.
MOST_BYTES = 64 << 20


def write_manifest(directory, content):
    """Writes the manifest of the export in `directory`, whose other files are all there.

    Args:
        directory: that holds `saved_model.pb`.
        content: a dictionary for JSON, see `require_content`. Added to it are "format", "files"
            (sha256 and bytes of each file) and "sha256", that of all the rest.
    """
    directory = pathlib.Path(directory)
    names = sorted(name for name in _file_names(directory) if name != MANIFEST)
    files = {}
    for name in names:
        sha256, size = sha256_of(directory, name)
        files[name] = {"sha256": sha256, "bytes": size}
    # As it will be read: lists for tuples, and keys that are texts.
    content = json.loads(json.dumps(content, allow_nan=False))
    require_content(content)
    manifest = {"format": FORMAT, **content, "files": files}
    manifest["sha256"] = _own_sha256(manifest)
    path = directory / MANIFEST
    path.parent.mkdir(exist_ok=True)
    with atomic_file(path) as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_manifest(directory):
    """Returns the manifest of an export, a dictionary; a `UserError` says what is wrong with it."""
    directory = pathlib.Path(directory)
    if _is_missing(directory / MANIFEST):
        raise refused(
            directory,
            f"no {MANIFEST}: copied in part, or not written by `keras-transformer export`. Copy "
            "the directory again, or export the model with it.",
        )
    content = read_bounded(directory, MANIFEST, MOST_BYTES)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(directory, MANIFEST, f"not JSON ({error})") from error
    is_manifest = isinstance(manifest, dict) and _is_integer(manifest.get("format"))
    if not is_manifest or manifest["format"] < 1:
        raise damaged(directory, MANIFEST, "'format' is missing")
    if manifest["format"] > FORMAT:
        raise refused(
            directory,
            f"{MANIFEST}: in format {manifest['format']}, but this package reads format {FORMAT}. "
            f"{_writer(manifest)}Install that version or a newer one.",
        )
    if manifest.get("sha256") != _own_sha256(manifest):
        raise damaged(directory, MANIFEST, "its content has changed (sha256)")
    try:
        require_content(manifest)
    except ValueError as error:
        raise damaged(directory, MANIFEST, str(error)) from error
    _require_files(directory, manifest)
    return manifest


def check_files(directory, manifest):
    """Checks that an export holds the files of its manifest, unchanged, and no others.

    Sizes are compared before anything is read, so that a huge file costs nothing.

    Args:
        directory: of the export.
        manifest: from `read_manifest`.

    Returns:
        The bytes of all files, without the manifest.
    """
    directory = pathlib.Path(directory)
    files = manifest["files"]
    found = set(_file_names(directory)) - {MANIFEST}
    for name in sorted(files.keys() - found):
        raise damaged(directory, name, "missing")
    for name in sorted(found - files.keys()):
        raise refused(
            directory, f"{name}: not in the manifest. Remove it, or copy the directory again."
        )
    for name, wanted in files.items():
        _require_size(directory, name, (directory / name).lstat().st_size, wanted["bytes"])
    for name, wanted in files.items():
        sha256, size = sha256_of(directory, name)
        _require_size(directory, name, size, wanted["bytes"])
        if sha256 != wanted["sha256"]:
            raise damaged(directory, name, "its content has changed (sha256)")
    return sum(wanted["bytes"] for wanted in files.values())


def _require_size(directory, name, size, wanted):
    if size != wanted:
        raise damaged(directory, name, f"{size:,} bytes, but {wanted:,} were written")


def _file_names(directory):
    """Yields the files below `directory`, relative and with "/"; links are a `UserError`."""
    folders = [directory]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise unreadable(folder, error) from error
        for entry in entries:
            path = pathlib.Path(entry.path)
            name = path.relative_to(directory).as_posix()
            if entry.is_symlink():
                raise symbolic_link(directory, name)
            if entry.is_dir():
                folders.append(path)
            else:
                yield name


def _is_missing(path):
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # there, for all we may know
        return False
    return False


def _own_sha256(manifest):
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _require_files(directory, manifest):
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise damaged(directory, MANIFEST, "'files' is missing")
    for name, entry in files.items():
        path = pathlib.PurePosixPath(name)
        is_plain = path.parts and str(path) == name and "\0" not in name
        if not is_plain or path.is_absolute() or ".." in path.parts:
            raise refused(
                directory,
                f"{MANIFEST}: names a path that is not plainly inside the directory, {name!r}. It "
                "is not what `keras-transformer export` writes: do not use this export.",
            )
        is_whole = (
            isinstance(entry, dict)
            and _is_integer(entry.get("bytes"))
            and isinstance(entry.get("sha256"), str)
            and re.fullmatch("[0-9a-f]{64}", entry["sha256"])
        )
        if not is_whole:
            raise damaged(directory, MANIFEST, f"no sha256 and bytes of {name}")


def _writer(manifest):
    """Who wrote a manifest of another format, if it can be told."""
    created_with = manifest.get("created_with")
    version = created_with.get("keras_transformer") if isinstance(created_with, dict) else None
    return f"keras_transformer {version} wrote it. " if isinstance(version, str) else ""


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)
