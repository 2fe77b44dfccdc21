"""Verification of an export: complete, harmless, and answering as the model in memory did."""

import dataclasses
import importlib.metadata
import os
import pathlib
import re
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer import __version__
from keras_transformer.export.allowed_ops import GraphOps, check_ops
from keras_transformer.export.damage import damaged, refused
from keras_transformer.export.golden import GoldenRow, replay_golden_pairs
from keras_transformer.export.manifest import MANIFEST, check_files, read_manifest
from keras_transformer.export.modules import signatures_of_kind
from keras_transformer.export.saved_model_file import (
    SAVED_MODEL,
    Variables,
    check_variables,
    read_meta_graph,
)
from keras_transformer.export.signatures import Signature, check_signatures
from keras_transformer.export.versions import resolve_version

# Longest part of a differing text in a message.
_SHOWN_CHARACTERS = 60


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
    """Result of `verify_export`.

    Attributes:
        directory: the version directory.
        checks: the checks in the order in which they were made.
        manifest: the export's manifest.
        total_bytes: size of its files.
        golden: result of each golden pair.
    """

    directory: pathlib.Path
    checks: tuple[Check, ...]
    manifest: dict[str, Any]
    total_bytes: int
    golden: tuple[GoldenRow, ...]

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures that were called, of those that the kind of model declares."""
        names = {row.signature for row in self.golden}
        records = signatures_of_kind(self.manifest["kind"])
        return tuple(record for record in records if record.name in names)


@dataclasses.dataclass(frozen=True)
class CheckedExport:
    """An export that may be loaded: its files, operations, signatures and weights are checked.

    Attributes:
        directory: the version directory.
        manifest: its manifest.
        meta_graph: its `MetaGraphDef`.
        total_bytes: size of its files, without the manifest.
        ops: the operations of its graph.
        signatures: names of its signatures.
        variables: the variables of its graph.
    """

    directory: pathlib.Path
    manifest: dict[str, Any]
    meta_graph: Any
    total_bytes: int
    ops: GraphOps
    signatures: list[str]
    variables: Variables


def check_export(directory: pathlib.Path, *, refuse_newer: bool = False) -> CheckedExport:
    """Checks an export without running any of it, from the cheapest check to the dearest.

    Args:
        directory: the version directory, from `resolve_version`.
        refuse_newer: whether to refuse an export that was made with a newer minor version of a
            package. Default False.

    Raises:
        UserError: for the first problem.
    """
    meta_graph = read_meta_graph(directory)
    manifest = read_manifest(directory)
    total_bytes = check_files(directory, manifest)
    if refuse_newer:
        _refuse_newer(directory, manifest, meta_graph)
    ops = check_ops(directory, meta_graph)
    kind = manifest["kind"]
    names = check_signatures(directory, meta_graph, kind, signatures_of_kind(kind))
    variables = check_variables(directory, meta_graph)
    return CheckedExport(directory, manifest, meta_graph, total_bytes, ops, names, variables)


def verify_export(directory: str | os.PathLike[str]) -> Verification:
    """Checks an export, from the cheapest check to the dearest, and stops at the first failure.

    Nothing of it runs before its files equal those of the manifest and its operations are on the
    list of `allowed_ops`. The last check replays the golden pairs in a clean process.

    Args:
        directory: `<name>/<version>`, or `<name>` for the highest version.

    Raises:
        UserError: for the first problem, in one line.
    """
    export = check_export(resolve_version(directory), refuse_newer=True)
    directory, manifest, ops = export.directory, export.manifest, export.ops
    outside_core = sorted(manifest["ops"]["outside_core"])
    if ops.outside_core != outside_core:
        raise damaged(
            directory,
            MANIFEST,
            f"ops outside core TensorFlow are {_listed(ops.outside_core)}, but it names "
            f"{_listed(outside_core)}",
        )
    golden = replay_golden_pairs(directory)
    for number, row in enumerate(golden, 1):
        if not row.ok:
            raise _different(directory, row, f"golden pair {number} of {len(golden)}")
    written = manifest["created_with"].items()
    made_with = ", ".join(f"{package} {version}" for package, version in written if version)
    functions = export.meta_graph.graph_def.library.function
    details = {
        "version": f"{directory.name} in {directory.absolute().parent}",
        "graph": f"{len(functions):,} functions in {SAVED_MODEL}",
        "manifest": f"{manifest['kind']} {manifest['name']!r}, format {manifest['format']}",
        "files": f"{len(manifest['files'])} files, {export.total_bytes:,} bytes: sha256 unchanged",
        "versions": f"made with {made_with}",
        "ops": f"{len(ops.ops)} kinds, all allowed; outside core: {_listed(ops.outside_core)}",
        "signatures": ", ".join(export.signatures),
        "weights": f"{export.variables.count} variables, "
        f"{export.variables.parameters:,} parameters",
        "golden pairs": f"{len(golden)} replayed in a clean process: equal to the model in memory",
    }
    checks = tuple(Check(name, True, detail) for name, detail in details.items())
    return Verification(directory, checks, manifest, export.total_bytes, tuple(golden))


def _refuse_newer(directory: pathlib.Path, manifest: dict[str, Any], meta_graph: Any) -> None:
    """Raises a `UserError` if an installed package is older than the one that wrote the export.

    TensorFlow promises nothing for exports of a newer minor version; patch versions are compatible.
    """
    written = manifest["created_with"]
    packages = [
        ("TensorFlow", meta_graph.meta_info_def.tensorflow_version, tf.__version__),
        ("TensorFlow", written["tensorflow"], tf.__version__),
        ("keras_transformer", written["keras_transformer"], __version__),
        ("tensorflow_text", written["tensorflow_text"], _tensorflow_text_version()),
    ]
    for package, version, installed in packages:
        if version and installed and _release(version) > _release(installed):
            raise refused(
                directory,
                f"made with {package} {version}, but {installed} is installed.",
                f"Install {package} {version} or newer, or export again with {installed}.",
            )


def _tensorflow_text_version() -> str | None:
    """Returns the installed version, or None; the replay reports it if it is needed."""
    try:
        return importlib.metadata.version("tensorflow-text")
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version: str) -> list[int]:
    """Returns the first two numbers of a version.

    >>> _release("2.21.1rc0")
    [2, 21]
    """
    return [int(number) for number in re.findall("[0-9]{1,9}", version)[:2]]


def _different(directory: pathlib.Path, row: GoldenRow, which: str) -> Exception:
    name, expected, got = row.difference or ("error", None, row.got)
    if name == "error":
        problem = f"{which}, signature {row.signature}, failed: {got}."
    else:
        problem = (
            f"{which}, signature {row.signature}, output {name!r}: expected {_cut(expected)}, got "
            f"{_cut(got)}. The export does not answer as its model did."
        )
    return refused(directory, problem, "Export the model again.")


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
