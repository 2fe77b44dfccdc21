"""Verification that an export is complete and harmless, and answers as the model in memory did."""

import contextlib
import dataclasses
import importlib.metadata
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer import __version__
from keras_transformer.export.damage import damaged, refused
from keras_transformer.export.golden import GoldenRow, replay_golden_pairs
from keras_transformer.export.inspection import inspect_export
from keras_transformer.export.manifest import MANIFEST
from keras_transformer.export.modules import signatures_of_export, signatures_of_kind
from keras_transformer.export.private_copy import PrivateCopy, private_copy
from keras_transformer.export.saved_model_file import SAVED_MODEL
from keras_transformer.export.signatures import Signature, check_signatures
from keras_transformer.export.versions import RUNNER, resolve_version

# Number of characters of a differing value in a message.
_SHOWN = 60


class Check(NamedTuple):
    """A check of an export.

    Attributes:
        name: name of the check.
        ok: whether it passed.
        detail: what it found.
    """

    name: str
    ok: bool
    detail: str


@dataclasses.dataclass(frozen=True)
class Verification:
    """Result of `check_export` or `verify_export`.

    Attributes:
        directory: the version directory.
        checks: the checks in the order in which they were made.
        manifest: the export's manifest.
        total_bytes: size of its files, without the manifest.
        golden: result of each golden pair; empty if none was replayed.
    """

    directory: pathlib.Path
    checks: tuple[Check, ...]
    manifest: dict[str, Any]
    total_bytes: int
    golden: tuple[GoldenRow, ...] = ()

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures that were called, of those that the kind of model declares."""
        names = {row.signature for row in self.golden}
        records = signatures_of_kind(self.manifest["kind"])
        return tuple(record for record in records if record.name in names)


class CheckedCopy(NamedTuple):
    """A private copy of an export that passed all checks which run nothing of it.

    Attributes:
        directory: directory of the copy: load this, not the original.
        verification: the checks, and the manifest.
    """

    directory: pathlib.Path
    verification: Verification


@contextlib.contextmanager
def checked_copy(
    directory: str | os.PathLike[str],
    *,
    refuse_newer: bool = False,
    key: str | os.PathLike[str] | None = None,
) -> Iterator[CheckedCopy]:
    """Checks a private copy of an export, and yields it to be loaded.

    What is loaded is what was checked: the copy cannot be replaced by others, and changes of the
    original have no effect. It is removed when the context ends; a loaded model does not need it.

    ```python
    with checked_copy("saved_models/dates") as checked:
        model = tf.saved_model.load(str(checked.directory))
    ```

    Args:
        directory: `<name>/<version>`, or `<name>` for the highest version.
        refuse_newer: whether to refuse exports of newer minor versions of packages. Default False.
        key: file with public keys, one of which must have signed the export. Default None, any.

    Raises:
        UserError: for the first problem, in one line.
    """
    with private_copy(resolve_version(directory), key) as copy:
        yield CheckedCopy(copy.directory, _with_signature(_check(copy, refuse_newer), key))


def check_export(
    directory: str | os.PathLike[str],
    *,
    refuse_newer: bool = False,
    key: str | os.PathLike[str] | None = None,
) -> Verification:
    """Checks an export without running any of it; a `UserError` reports the first problem.

    Args:
        directory: `<name>/<version>`, or `<name>` for the highest version.
        refuse_newer: whether to refuse exports of newer minor versions of packages. Default False.
        key: file with public keys, one of which must have signed the export. Default None, any.
    """
    with checked_copy(directory, refuse_newer=refuse_newer, key=key) as checked:
        return checked.verification


def _check(copy: PrivateCopy, refuse_newer: bool) -> Verification:
    """Checks a copy whose files equal its manifest."""
    original, directory, manifest, total_bytes = copy
    if (directory / RUNNER).exists():
        problem = f"a {manifest.get('export_format')} export, not a SavedModel."
        fix = f"Run it with `python {RUNNER}`, or check it with `keras-transformer verify`."
        raise refused(directory, problem, fix)
    found = inspect_export(directory)
    if refuse_newer:
        _refuse_newer(directory, manifest, found.tensorflow_version)
    named = sorted(manifest["ops"]["outside_core"])
    outside, listed = (", ".join(names) or "none" for names in (found.outside_core, named))
    if found.outside_core != named:
        problem = f"ops outside core TensorFlow are {outside}, but it names {listed}"
        raise damaged(directory, MANIFEST, problem)
    kind, has_golden = manifest["kind"], [pair["signature"] for pair in manifest["golden"]]
    records = signatures_of_export(manifest)
    names = check_signatures(directory, found.signatures, kind, records, has_golden)
    unproven = sorted(set(names) - set(has_golden))
    if unproven:
        problem = f"no golden pair of the signature {unproven[0]!r}, so nothing shows its answers"
        raise damaged(directory, MANIFEST, problem)
    written = manifest["created_with"].items()
    made_with = ", ".join(f"{package} {version}" for package, version in written if version)
    details = {
        "version": f"{original.name} in {original.absolute().parent}",
        "graph": f"{found.functions:,} functions in {SAVED_MODEL}",
        "manifest": f"{kind} {manifest['name']!r}, format {manifest['format']}",
        "files": f"{len(manifest['files'])} files, {total_bytes:,} bytes: sha256 unchanged",
        "versions": f"made with {made_with}",
        "ops": f"{found.ops} kinds, all allowed; outside core: {outside}",
        "signatures": ", ".join(names),
        "weights": f"{found.variables} variables, {found.parameters:,} parameters",
    }
    checks = tuple(Check(name, True, detail) for name, detail in details.items())
    return Verification(original, checks, manifest, total_bytes)


def verify_export(
    directory: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
) -> Verification:
    """Checks an export, starting with the fastest checks, and stops at the first failure.

    Nothing in the export runs before its files equal those of the manifest and its operations are
    on the list of `allowed_ops`. The last check replays the golden pairs in a clean process.

    Args:
        directory: `<name>/<version>`, or `<name>` for the highest version.
        key: file with public keys, one of which must have signed the export. Default None, any.

    Raises:
        UserError: for the first problem, in one line.
    """
    version = resolve_version(directory)
    if (version / RUNNER).exists():
        with private_copy(version, key) as copy:
            return _with_signature(_verify_in_format(copy), key)
    with checked_copy(version, refuse_newer=True, key=key) as checked_one:
        checked, golden = checked_one.verification, replay_golden_pairs(checked_one.directory)
    for number, row in enumerate(golden, 1):
        if not row.ok:
            which = f"golden pair {number} of {len(golden)}, signature {row.signature}"
            problem = f"{which}, {described_difference(row)}"
            raise refused(checked.directory, problem, "Export the model again.")
    detail = f"{len(golden)} replayed in a clean process: equal to the model in memory"
    checks = (*checked.checks, Check("golden pairs", True, detail))
    return dataclasses.replace(checked, checks=checks, golden=tuple(golden))


def _with_signature(verification: Verification, key: str | os.PathLike[str] | None) -> Verification:
    """Adds the check of the signature, which `private_copy` made if there is a key."""
    if key is None:
        return verification
    check = Check("signature", True, f"signed by a key in {os.fspath(key)}")
    return dataclasses.replace(verification, checks=(*verification.checks, check))


def _verify_in_format(copy: PrivateCopy) -> Verification:
    """Checks an export that is not a SavedModel as its format does."""
    # The formats import this module.
    from keras_transformer.export.formats import FORMATS

    name = copy.manifest.get("export_format")
    if name not in FORMATS:
        problem = f"in the unknown export format {name!r}; known are {', '.join(sorted(FORMATS))}."
        raise refused(copy.original, problem, "Import the module that defines it first.")
    return FORMATS[name].verify(copy)


def _refuse_newer(
    directory: pathlib.Path, manifest: dict[str, Any], tensorflow_version: str
) -> None:
    """Raises a `UserError` if an installed package is older than the one that wrote the export.

    TensorFlow may fail to load exports of a newer minor version; patch versions are compatible.
    """
    written = manifest["created_with"]
    try:
        tensorflow_text = importlib.metadata.version("tensorflow-text")
    except importlib.metadata.PackageNotFoundError:  # the replay reports it if it is needed
        tensorflow_text = None
    packages = [
        ("TensorFlow", tensorflow_version, tf.__version__),
        ("TensorFlow", written["tensorflow"], tf.__version__),
        ("keras_transformer", written["keras_transformer"], __version__),
        ("tensorflow_text", written["tensorflow_text"], tensorflow_text),
    ]
    for package, version, installed in packages:
        if version and installed and _release(version) > _release(installed):
            raise refused(
                directory,
                f"made with {package} {version}, but {installed} is installed.",
                f"Install {package} {version} or newer, or export again with {installed}.",
            )


def _release(version: str) -> list[int]:
    """Returns the first two numbers of a version: [2, 21] of 2.21.1rc0."""
    return [int(number) for number in re.findall("[0-9]{1,9}", version)[:2]]


def described_difference(row: GoldenRow) -> str:
    """Returns the first difference of a replayed golden pair, for a message."""
    name, *values = row.difference or ("error", None, row.got)
    if name == "error":
        return f"failed: {values[1]}."
    texts = [repr(value) for value in values]
    expected, got = (text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for text in texts)
    return (
        f"output {name!r}: expected {expected}, got {got}. The export does not answer as its model "
        "did."
    )
