"""Manifests of runs: the sha256 of the files of a run directory, and of its trained model.

Like the manifest of an export, they detect damage. Somebody who changes a file on purpose can also
change its checksum; only a signature detects that (`signing`).

| manifest | files |
|---|---|
| `manifest.json` | recipe, vocabularies, fingerprints of corpora, environment, result, metrics |
| `model/manifest.json` | the trained model: all files of `model/` |

Checkpoints, token caches and event files have their own checksums.
"""

import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, Self

from keras_transformer._utils.errors import UserError, named_file_errors
from keras_transformer._utils.files import atomic_file
from keras_transformer.export.damage import open_regular
from keras_transformer.export.manifest import (
    file_names,
    is_file_entry,
    is_plain_path,
    own_sha256,
)
from keras_transformer.export.signing import require_signature
from keras_transformer.export.strict_json import parse_json

RUN_MANIFEST, RUN_SIGNATURE = "manifest.json", "manifest.sig"
FORMAT = 1
#: A run has tens of files.
MAXIMUM_BYTES = 1 << 20


class RunManifest:
    """The manifest of a directory, whose files are replaced one at a time.

    The manifest is written before a file is replaced, with the sums of old and new content, and
    again afterwards. A process that is killed at any moment leaves files that agree with it.

    Args:
        directory: directory of the files.

    >>> import tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> RunManifest.new(directory).write("recipe.yaml", b"name: dates")
    >>> _ = (directory / "recipe.yaml").write_text("name: datetimes")
    >>> RunManifest.read(directory).check()
    Traceback (most recent call last):
    keras_transformer._utils.errors.UserError: ...recipe.yaml: damaged: 15 bytes, but 11 were ...
    """

    def __init__(
        self,
        directory: pathlib.Path,
        files: Mapping[str, Any] | None = None,
        pending: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        # Entries by name: {"sha256": …, "bytes": …}.
        self._files: dict[str, Any] = dict(files or {})
        # Entries of files that are being replaced; None for a file that is being removed.
        self._pending: dict[str, Any] = dict(pending or {})

    @classmethod
    def new(cls, directory: str | os.PathLike[str]) -> Self:
        """Returns a manifest without files, which is written with the first one."""
        return cls(pathlib.Path(directory))

    @classmethod
    def read(
        cls, directory: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
    ) -> Self:
        """Returns the manifest of a directory; a `UserError` reports what is wrong with it.

        Args:
            directory: directory of the files.
            key: file with public keys, one of which must have signed it. Default None, any.
        """
        directory = pathlib.Path(directory)
        path = directory / RUN_MANIFEST

        def broken(problem: str) -> UserError:
            return _damaged(directory, RUN_MANIFEST, problem)

        if not os.path.lexists(path):
            raise UserError(
                f"has no {RUN_MANIFEST}: an older version of keras_transformer wrote this run, or "
                "the copy is incomplete.",
                where=directory,
                fix="If you trust its files as they are, write one: keras-transformer seal "
                f"{directory}",
            )
        content = _read(directory, RUN_MANIFEST)
        if key is not None:
            require_signature(directory, content, RUN_SIGNATURE, key)
        try:
            manifest = parse_json(content)
        except ValueError as error:
            raise broken(f"not JSON ({error})") from error
        if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
            raise broken("'format' is missing")
        if manifest["format"] != FORMAT:
            raise UserError(
                f"in format {manifest['format']}, but this package reads format {FORMAT}.",
                where=path,
                fix="Install the version of keras_transformer that wrote it.",
            )
        if manifest.get("sha256") != own_sha256(manifest):
            raise broken("its content has changed (sha256)")
        files, pending = manifest.get("files"), manifest.get("pending")
        for key, entries in (("files", files), ("pending", pending)):
            if not isinstance(entries, dict):
                raise broken(f"{key!r} is missing")
            for name, entry in entries.items():
                is_removed = entry is None and key == "pending"
                if not is_plain_path(name) or not (is_removed or is_file_entry(entry)):
                    raise broken(f"the entry of {name!r} is not valid")
        return cls(directory, files, pending)

    @property
    def sha256(self) -> str:
        """The checksum of the manifest itself, which covers the checksums of all files."""
        return self._content()["sha256"]

    def __contains__(self, name: str) -> bool:
        """Returns whether the manifest has a file, or files in a directory, of this name."""
        return any(each == name or each.startswith(f"{name}/") for each in self._files)

    def check(self, *names: str) -> None:
        """Raises a `UserError` unless files are as they were written.

        Args:
            *names: names of files, or of directories. Default: all files.
        """
        known = self._files.keys() | self._pending.keys()
        for name in sorted(known):
            if not names or any(name == each or name.startswith(f"{each}/") for each in names):
                self._check_file(name)

    def check_no_others(self) -> None:
        """Raises a `UserError` if the directory has files that the manifest does not have."""
        others = set(file_names(self.directory)) - self._files.keys()
        for name in sorted(others - {RUN_MANIFEST, RUN_SIGNATURE}):
            fix = "Remove it, or copy the run again."
            raise UserError("not in the manifest.", where=self.directory / name, fix=fix)

    def write(self, name: str, content: bytes) -> None:
        """Replaces a file, or writes a new one, atomically."""
        path = self.directory / name
        entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        with named_file_errors(path):
            if self._files.get(name) != entry or name in self._pending or not path.exists():
                self._pending[name] = entry
                self._save()
                with atomic_file(path, "wb") as file:
                    file.write(content)
                self._files[name] = self._pending.pop(name)
                self._save()

    def remove(self, name: str) -> None:
        """Removes a file or a directory, if it exists."""
        path = self.directory / name
        for each in [each for each in self._files if each == name or each.startswith(f"{name}/")]:
            self._pending[each] = None
        if self._pending:
            self._save()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Removes a file, or the files of a directory, from the manifest but not from the disk."""
        before = len(self._files) + len(self._pending)
        for entries in (self._files, self._pending):
            for each in [each for each in entries if each == name or each.startswith(f"{name}/")]:
                del entries[each]
        if len(self._files) + len(self._pending) != before:
            self._save()

    def add(self, *names: str) -> None:
        """Adds files that are complete, or all files of directories."""
        for name in names:
            path = self.directory / name
            below = [f"{name}/{each}" for each in file_names(path)] if path.is_dir() else [name]
            for each in below:
                self._files[each] = _fingerprint(self.directory, each)
                self._pending.pop(each, None)
        self._save()

    def add_all(self) -> None:
        """Adds every file of the directory."""
        self.add(*sorted(set(file_names(self.directory)) - {RUN_MANIFEST, RUN_SIGNATURE}))

    def _check_file(self, name: str) -> None:
        path = self.directory / name
        allowed = [entries[name] for entries in (self._files, self._pending) if name in entries]
        if not os.path.lexists(path):
            # A new file may not have been written, and an old one may have been removed.
            if name in self._files and self._pending.get(name, self) is not None:
                raise _damaged(self.directory, name, "missing")
            return
        found = _fingerprint(self.directory, name)
        if found not in allowed:
            sizes = {entry["bytes"] for entry in allowed if entry}
            if found["bytes"] not in sizes:
                written = " or ".join(f"{size:,}" for size in sorted(sizes))
                problem = f"{found['bytes']:,} bytes, but {written} were written"
                raise _damaged(self.directory, name, problem)
            raise _damaged(self.directory, name, "its content has changed (sha256)")

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "format": FORMAT,
            "files": dict(sorted(self._files.items())),
            "pending": dict(sorted(self._pending.items())),
        }
        return {**content, "sha256": own_sha256(content)}

    def _save(self) -> None:
        with named_file_errors(self.directory), atomic_file(self.directory / RUN_MANIFEST) as file:
            file.write(json.dumps(self._content(), indent=1, ensure_ascii=False) + "\n")


def _fingerprint(directory: pathlib.Path, name: str) -> dict[str, Any]:
    with _open(directory, name) as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": file.tell()}


def _read(directory: pathlib.Path, name: str) -> bytes:
    with _open(directory, name) as file:
        content = file.read(MAXIMUM_BYTES + 1)
    if len(content) > MAXIMUM_BYTES:
        raise _damaged(directory, name, f"more than {MAXIMUM_BYTES:,} bytes")
    return content


def _open(directory: pathlib.Path, name: str) -> Any:
    try:
        return open_regular(directory, name)
    except UserError as error:
        raise UserError(error.problem, where=error.where, fix=_fix(directory)) from error


def _damaged(directory: pathlib.Path, name: str, problem: str) -> UserError:
    return UserError(f"damaged: {problem}.", where=directory / name, fix=_fix(directory))


def _fix(directory: pathlib.Path) -> str:
    own = f"if you have changed it on purpose, accept it: keras-transformer seal {directory}"
    return f"Copy the run again, or train it again; {own}"
