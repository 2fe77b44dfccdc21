"""Whether an export is whole, harmless and answers as it did: everything that can be checked."""

import dataclasses
import importlib.metadata
import pathlib
import re
from typing import NamedTuple

import tensorflow as tf

from keras_transformer import __version__
from keras_transformer.export.allowed_ops import check_ops
from keras_transformer.export.damage import damaged, refused
from keras_transformer.export.golden import GoldenRow, replay_golden_pairs
from keras_transformer.export.manifest import MANIFEST, check_files, read_manifest
from keras_transformer.export.saved_model_file import SAVED_MODEL, check_variables, read_meta_graph
from keras_transformer.export.signatures import check_signatures
from keras_transformer.export.versions import resolve_version

# What a message shows of a text that differs.
_SHOWN_LETTERS = 60


class Check(NamedTuple):
    """A check that was made: its name, whether it went well, and what it found."""

    name: str
    ok: bool
    detail: str


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `verify_export` found out.

    Attributes:
        directory: the version directory.
        checks: a `Check` each, in the order in which they were made.
        manifest: the export's.
        total_bytes: of its files.
        golden: a `GoldenRow` for each golden pair.
    """

    directory: pathlib.Path
    checks: tuple[Check, ...]
    manifest: dict
    total_bytes: int
    golden: tuple[GoldenRow, ...]


def verify_export(directory):
    """Checks an export from the cheapest to the dearest, and stops at the first that fails.

    Nothing of it is run before its files are those of the manifest and its ops are on the list of
    `allowed_ops`. The last check replays the golden pairs in a clean process.

    Args:
        directory: `<name>/<version>`, or `<name>` for the highest version.

    Returns:
        A `Verification`. Whatever is wrong is a `UserError` of one line.
    """
    directory = resolve_version(directory)
    checks = [Check("version", True, f"{directory.name} in {directory.absolute().parent}")]

    def passed(name, detail):
        checks.append(Check(name, True, detail))

    meta_graph = read_meta_graph(directory)
    graph = meta_graph.graph_def
    passed("graph", f"{len(graph.library.function):,} functions in {SAVED_MODEL}")

    manifest = read_manifest(directory)
    passed("manifest", f"{manifest['kind']} {manifest['name']!r}, format {manifest['format']}")

    total_bytes = check_files(directory, manifest)
    passed("files", f"{len(manifest['files'])} files, {total_bytes:,} bytes: sha256 as written")

    passed("versions", _check_versions(directory, manifest, meta_graph))

    ops = check_ops(directory, meta_graph)
    if ops.outside_core != sorted(manifest["ops"]["outside_core"]):
        raise damaged(
            directory,
            MANIFEST,
            f"ops outside core TensorFlow are {_listed(ops.outside_core)}, but it names "
            f"{_listed(manifest['ops']['outside_core'])}",
        )
    passed("ops", f"{len(ops.ops)} kinds, all allowed; outside core: {_listed(ops.outside_core)}")

    names = check_signatures(directory, meta_graph, manifest["kind"])
    passed("signatures", ", ".join(names))

    variables = check_variables(directory, meta_graph)
    passed("weights", f"{variables.count} variables, {variables.parameters:,} parameters")

    golden = replay_golden_pairs(directory)
    for number, row in enumerate(golden, 1):
        if not row.ok:
            raise refused(directory, _described(row, f"golden pair {number} of {len(golden)}"))
    passed("golden pairs", f"{len(golden)} replayed in a clean process: as the model in memory")

    return Verification(directory, tuple(checks), manifest, total_bytes, tuple(golden))


def _check_versions(directory, manifest, meta_graph):
    """Nothing is promised of what a newer minor version wrote; patches are fine."""
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
                f"made with {package} {version}, but {installed} is installed. Install "
                f"{package} {version} or newer, or export again with {installed}.",
            )
    named = [f"{package} {version}" for package, version in written.items() if version]
    return f"made with {', '.join(named)}"


def _tensorflow_text_version():
    """None if it is not installed: then the replay says so, if it is needed."""
    try:
        return importlib.metadata.version("tensorflow-text")
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(version):
    """The first two numbers of a version.

    >>> _release("2.21.1rc0")
    [2, 21]
    """
    return [int(number) for number in re.findall("[0-9]{1,9}", version)[:2]]


def _described(row, which):
    name, expected, got = row.difference
    if name == "error":
        return f"{which}, signature {row.signature}, failed: {got}. Export the model again."
    return (
        f"{which}, signature {row.signature}, output {name!r}: expected {_cut(expected)}, got "
        f"{_cut(got)}. The export does not answer as its model did: export again."
    )


def _cut(value):
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}…"


def _listed(names):
    return ", ".join(names) or "none"
