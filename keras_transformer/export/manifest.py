"""The manifest of an export, `assets.extra/manifest.json`: what it is, and the sha256 of its files.

It detects damage, not malice: somebody who changes a file can also change its checksum. Against
malice, `allowed_ops` checks the operations of the graph, and `signing` says who wrote an export.
"""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file
from keras_transformer.export.damage import (
    copied_sha256,
    damaged,
    read_bounded,
    refused,
    sha256_of,
    symbolic_link,
    unreadable,
)
from keras_transformer.export.signing import require_signature
from keras_transformer.export.strict_json import parse_json
from keras_transformer.models import MODELS

MANIFEST = "assets.extra/manifest.json"
#: Signature of the manifest, see `signing`. It is not in the manifest.
SIGNATURE = "assets.extra/manifest.sig"
FORMAT = 1

#: Golden pairs are a few sentences, and attention scores between them.
MAXIMUM_BYTES = 16 << 20

_FREE = ("model", "recipe", "tokenizers", "search", "weights", "limits", "quality")
_TYPES: dict[str, type] = dict.fromkeys(_FREE, object) | {
    "name": str,
    "version": int,
    "created_with": dict,
    "kind": str,
    "xla": bool,
    "ops": dict,
    "golden": list,
}


def write_manifest(directory: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Writes the manifest of an export whose other files are complete.

    Args:
        directory: directory of the export.
        content: a dictionary for JSON, see `find_problem`. "format", "files" (sha256 and size of
            each file) and "sha256" (of the rest of the manifest) are added.
    """
    directory = pathlib.Path(directory)
    files = {}
    for name in sorted(set(file_names(directory)) - {MANIFEST, SIGNATURE}):
        sha256, size = sha256_of(directory, name)
        files[name] = {"sha256": sha256, "bytes": size}
    # As it will be read: tuples become lists, and keys become strings.
    content = json.loads(json.dumps(content, allow_nan=False))
    content["recipe"] = _without_places(content.get("recipe"))
    problem = find_problem(content)
    if problem is not None:
        raise UserError(f"The content of the manifest is not valid: {problem}.")
    manifest = {"format": FORMAT, **content, "files": files}
    manifest["sha256"] = own_sha256(manifest)
    (directory / MANIFEST).parent.mkdir(exist_ok=True)
    with atomic_file(directory / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_manifest(
    directory: str | os.PathLike[str],
    key: str | os.PathLike[str] | None = None,
    copy_to: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Returns the manifest of an export; a `UserError` reports what is wrong with it.

    Args:
        directory: directory of the export.
        key: file with public keys, one of which must have signed the manifest. Default None, any.
        copy_to: directory to which the manifest is copied, and its signature if there is one.
            Default: none.
    """
    directory = pathlib.Path(directory)
    try:
        (directory / MANIFEST).lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise refused(
            directory,
            f"no {MANIFEST}: the directory is incomplete, or `keras-transformer export` did not "
            "write it.",
            "Copy the directory again, or export the model again.",
        ) from None
    except OSError:
        pass  # `read_bounded` reports it
    content = read_bounded(directory, MANIFEST, MAXIMUM_BYTES)
    if key is not None:
        require_signature(directory, content, SIGNATURE, key)
    if copy_to is not None:
        (copy_to / MANIFEST).parent.mkdir(parents=True)
        (copy_to / MANIFEST).write_bytes(content)
        if os.path.lexists(directory / SIGNATURE):
            copied_sha256(directory, SIGNATURE, copy_to, MAXIMUM_BYTES)
    try:
        manifest = parse_json(content)
    except ValueError as error:
        raise damaged(directory, MANIFEST, f"not JSON ({error})") from error
    is_manifest = isinstance(manifest, dict) and _is_integer(manifest.get("format"))
    if not is_manifest or manifest["format"] < 1:
        raise damaged(directory, MANIFEST, "'format' is missing")
    if manifest["format"] > FORMAT:
        created_with = manifest.get("created_with")
        version = created_with.get("keras_transformer") if isinstance(created_with, dict) else None
        writer = f" keras_transformer {version} wrote it." if isinstance(version, str) else ""
        problem = f"in format {manifest['format']}, but this package reads format {FORMAT}.{writer}"
        raise refused(directory, f"{MANIFEST}: {problem}", "Install that version or a newer one.")
    if manifest.get("sha256") != own_sha256(manifest):
        raise damaged(directory, MANIFEST, "its content has changed (sha256)")
    problem = find_problem(manifest)
    if problem is not None:
        raise damaged(directory, MANIFEST, problem)
    _require_files(directory, manifest)
    return manifest


def find_problem(content: dict[str, Any]) -> str | None:
    """Returns what is wrong with the content of a manifest, or None if it is valid.

    - name, version: of the export.
    - created_with: versions of keras_transformer, tensorflow, keras, and of tensorflow_text or
      None if the graph needs none of its operations.
    - kind: class of the model, which decides the signatures.
    - model, recipe, tokenizers, search, weights, limits, quality: free; None if there is nothing.
    - xla: whether the graph has parts that XLA must compile.
    - ops: {"outside_core": names of the operations that core TensorFlow does not have}.
    - golden: answers of the model in memory, a list of {"signature", "inputs", "outputs"}. Each
      signature of the export has at least one.
    - signatures: names of the signatures, if the export has chosen ones and not all of its kind.
    """
    for key, kind in _TYPES.items():
        if not isinstance(content.get(key), kind) or key not in content:
            return f"{key!r} is missing or wrong"
    if not isinstance(content["quality"], dict | None):
        return "'quality' is neither metrics nor null"
    if content["kind"] not in MODELS:
        return f"'kind' must be one of {', '.join(MODELS)}; got {content['kind']!r}"
    for package in ("keras_transformer", "tensorflow", "keras", "tensorflow_text"):
        version = content["created_with"].get(package)
        may_be_none = package == "tensorflow_text" and version is None
        if not isinstance(version, str) and not may_be_none:
            return f"no version of {package} in 'created_with'"
    outside_core = content["ops"].get("outside_core")
    if not isinstance(outside_core, list) or not all(isinstance(op, str) for op in outside_core):
        return "no list 'outside_core' in 'ops'"
    if not content["golden"] or not all(map(_is_golden_pair, content["golden"])):
        return "no golden pairs, or an incomplete one"
    signatures = content.get("signatures", [])
    if not isinstance(signatures, list) or not all(isinstance(each, str) for each in signatures):
        return "'signatures' is not a list of names"
    return None


def check_files(
    directory: str | os.PathLike[str],
    manifest: dict[str, Any],
    copy_to: pathlib.Path | None = None,
) -> int:
    """Checks the files of an export, and returns their size in bytes, without the manifest.

    The export must hold the files of its manifest, unchanged, and no others. Sizes are compared
    before anything is read, so that a huge file is refused at once.

    Args:
        directory: directory of the export.
        manifest: from `read_manifest`.
        copy_to: directory to which the files are copied; their copies are checked. Default: none.
    """
    directory = pathlib.Path(directory)
    files = manifest["files"]
    found = set(file_names(directory)) - {MANIFEST, SIGNATURE}
    for name in sorted(files.keys() - found):
        raise damaged(directory, name, "missing")
    for name in sorted(found - files.keys()):
        fix = "Remove it, or copy the directory again."
        raise refused(directory, f"{name}: not in the manifest.", fix)
    for name, wanted in files.items():
        _require_size(directory, name, (directory / name).lstat().st_size, wanted["bytes"])
    for name, wanted in files.items():
        if copy_to is None:
            sha256, size = sha256_of(directory, name)
        else:
            sha256, size = copied_sha256(directory, name, copy_to, wanted["bytes"])
        _require_size(directory, name, size, wanted["bytes"])
        if sha256 != wanted["sha256"]:
            raise damaged(directory, name, "its content has changed (sha256)")
    return sum(wanted["bytes"] for wanted in files.values())


# Sections of a recipe about the machine of the training.
_PRIVATE_SECTIONS = ("checkpoints", "tensorboard", "export")
# Keys of the section `data` that hold files, and options of a format or a tokenizer that may.
_FILES = ("train", "validation", "test", "format_options", "options")


def _without_places(recipe: Any) -> Any:
    """Returns a recipe for an export: file names without directories, nothing about the machine.

    >>> _without_places({"data": {"train": ["/home/me/a.en"], "cache": "/tmp"}, "export": {}})
    {'data': {'train': ['a.en'], 'cache': None}}
    """
    if not isinstance(recipe, dict):
        return recipe
    public = {name: value for name, value in recipe.items() if name not in _PRIVATE_SECTIONS}
    for name in ("data", "text"):
        if isinstance(section := public.get(name), dict):
            public[name] = {
                key: _file_names(value) if key in _FILES else None if key == "cache" else value
                for key, value in section.items()
            }
    return public


def _file_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _file_names(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_file_names(each) for each in value]
    return pathlib.PurePath(value).name if isinstance(value, str) else value


def _is_golden_pair(pair: Any) -> bool:
    kinds = {"signature": str, "inputs": dict, "outputs": dict}
    return (
        isinstance(pair, dict)
        and all(isinstance(pair.get(key), kind) for key, kind in kinds.items())
        and bool(pair["outputs"])
    )


def _require_size(directory: pathlib.Path, name: str, size: int, wanted: int) -> None:
    if size != wanted:
        raise damaged(directory, name, f"{size:,} bytes, but {wanted:,} were written")


def file_names(directory: pathlib.Path) -> Iterator[str]:
    """Yields the files below `directory`, relative and with "/"; links are a `UserError`."""

    def report(error: OSError) -> None:
        raise unreadable(error.filename, error) from error

    for folder, folders, files in os.walk(directory, onerror=report):
        for path in (pathlib.Path(folder, name) for name in (*folders, *files)):
            name = path.relative_to(directory).as_posix()
            if path.is_symlink():
                raise symbolic_link(directory, name)
            if path.name in files:
                yield name


def own_sha256(manifest: dict[str, Any]) -> str:
    """Returns the sha256 of a manifest without its key "sha256", in canonical JSON."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def is_plain_path(name: str) -> bool:
    """Returns whether the name of a file in a manifest is plainly inside its directory."""
    path = pathlib.PurePosixPath(name)
    is_plain = bool(path.parts) and str(path) == name and "\0" not in name
    return is_plain and not path.is_absolute() and ".." not in path.parts


def is_file_entry(entry: Any) -> bool:
    """Returns whether a value is the complete entry of a file: {"sha256", "bytes"}."""
    return (
        isinstance(entry, dict)
        and entry.keys() == {"sha256", "bytes"}
        and _is_integer(entry["bytes"])
        and 0 <= entry["bytes"] < 1 << 63
        and isinstance(entry["sha256"], str)
        and re.fullmatch("[0-9a-f]{64}", entry["sha256"]) is not None
    )


def _require_files(directory: pathlib.Path, manifest: dict[str, Any]) -> None:
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise damaged(directory, MANIFEST, "'files' is missing")
    for name, entry in files.items():
        if not is_plain_path(name):
            raise refused(
                directory,
                f"{MANIFEST}: names a path that is not plainly inside the directory, {name!r}. "
                "`keras-transformer export` does not write such paths.",
                "Do not use this export.",
            )
        if not is_file_entry(entry):
            raise damaged(directory, MANIFEST, f"no sha256 and bytes of {name}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
