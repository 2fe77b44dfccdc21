"""Version directories `<name>/<version>/`: the one that a server would load, and the next one."""

import os
import pathlib
import re
from collections.abc import Iterator

from keras_transformer._utils.errors import UserError
from keras_transformer.export.damage import refused, unreadable
from keras_transformer.export.saved_model_file import SAVED_MODEL

#: Program of an export that is not a SavedModel.
RUNNER = "run.py"

_GIVE = "Give the directory <name>/<version> or <name> that `train` or `export` wrote."
# Problem and fix of files that are no exports.
_ARCHIVE = (
    "an archive. Archives are not unpacked here, as they can write outside their directory or fill "
    "the disk.",
    "Unpack it in a safe place, and give the directory.",
)
_KERAS = ("a Keras model file, which can hold Python code and is not loaded here.", _GIVE)
_HDF5 = ("an HDF5 file, such as weights of a Keras model, and not an export.", _GIVE)
_PICKLE = ("a pickle, which runs code when it is loaded, and is never loaded here.", _GIVE)

# The name is checked first, as `.keras` files are zip archives too.
_BY_SUFFIX = {
    ".keras": _KERAS,
    **dict.fromkeys((".h5", ".hdf5"), _HDF5),
    **dict.fromkeys((".pkl", ".pickle"), _PICKLE),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z"), _ARCHIVE),
}
_BY_FIRST_BYTES = {
    b"PK\x03\x04": _ARCHIVE,
    b"\x1f\x8b": _ARCHIVE,
    b"\x89HDF\r\n\x1a\n": _HDF5,
    # Pickles of the protocols 2 to 5.
    **dict.fromkeys((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), _PICKLE),
}


def resolve_version(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the version directory that a path refers to.

    That is the path itself if it holds an export, else its subdirectory with the highest number,
    which TensorFlow Serving would load. Other names, such as "latest" or "1a", are skipped, as
    TensorFlow Serving skips them. Two names of the highest number, "01" and "1", are a `UserError`,
    because it is undefined which one a server takes.
    """
    path = pathlib.Path(path)
    try:
        return require_loadable(_resolved(path))
    except PermissionError as error:
        raise unreadable(path, error) from error


def require_loadable(path: pathlib.Path) -> pathlib.Path:
    """Returns a path that TensorFlow can load from.

    TensorFlow writes weights to any path, but interprets the path to read them from as a pattern,
    in which "[" begins a set of characters.
    """
    absolute = os.path.abspath(path)
    if "[" in absolute:
        problem = f"TensorFlow cannot load a model from a path with a [ in it, as in {absolute}."
        raise refused(path, problem, "Use another name.")
    return path


def next_version(path: str | os.PathLike[str]) -> int:
    """Returns the number of the next version in the directory `<name>`: highest + 1, or 1."""
    path = pathlib.Path(path)
    if not os.path.lexists(path):
        return 1
    if not path.is_dir():
        raise refused(path, "not a directory, so it can hold no version.", "Choose another name.")
    return max((number for number, _ in numbered_versions(path)), default=0) + 1


def _resolved(path: pathlib.Path) -> pathlib.Path:
    if not path.is_dir():
        raise _not_a_directory(path)
    if _is_export(path):
        return path
    versions = [(number, entry) for number, entry in numbered_versions(path) if entry.is_dir()]
    if not versions:
        raise refused(path, f"no {SAVED_MODEL} in {path}, and no version directory.", _GIVE)
    highest, directory = max(versions)
    names = sorted(entry.name for number, entry in versions if number == highest)
    if len(names) > 1:
        same = f"{' and '.join(names)} are the same version to TensorFlow Serving"
        raise refused(path, f"{same}, which loads one of them.", "Remove or rename the others.")
    if not _is_export(directory):
        raise refused(
            directory,
            f"no {SAVED_MODEL} in {directory}, the highest version.",
            "If it is being copied, wait; otherwise remove it or copy it again.",
        )
    return directory


def _is_export(path: pathlib.Path) -> bool:
    return (path / SAVED_MODEL).exists() or (path / RUNNER).exists()


def numbered_versions(path: pathlib.Path) -> Iterator[tuple[int, pathlib.Path]]:
    """Yields number and path of the entries whose name is a number of 63 bits, the versions.

    Other names, such as "latest" or "1a", are skipped, as TensorFlow Serving skips them.
    """
    for entry in path.iterdir():
        if re.fullmatch("[0-9]{1,19}", entry.name) and int(entry.name) < 2**63:
            yield int(entry.name), entry


def _not_a_directory(path: pathlib.Path) -> UserError:
    if not os.path.lexists(path):
        return refused(path, f"no such directory (the current directory is {os.getcwd()}).", _GIVE)
    if path.name == SAVED_MODEL:
        return refused(path, "a file of an export.", "Give the directory that holds it.")
    found = _BY_SUFFIX.get(path.suffix.lower())
    # Reading a pipe would wait until another process writes into it.
    if found is None and path.is_file():
        with path.open("rb") as file:
            first_bytes = file.read(8)
        matches = (
            found for start, found in _BY_FIRST_BYTES.items() if first_bytes.startswith(start)
        )
        found = next(matches, None)
    return refused(path, *(found or ("not a directory.", _GIVE)))
