"""`<name>/<version>/`: which directory a server would load, and which number comes next."""

import os
import pathlib
import re

from keras_transformer.export.damage import refused, unreadable
from keras_transformer.export.saved_model_file import SAVED_MODEL

_GIVE = "Give the directory <name>/<version> or <name> that `train` or `export` wrote."
_ARCHIVE = (
    "an archive. Nothing is unpacked here, as an archive can write outside its directory or fill "
    "the disk: unpack it yourself where that does no harm, and give the directory."
)
_KERAS = f"a Keras model file, which can hold Python code and is not loaded here. {_GIVE}"
_HDF5 = f"an HDF5 file, weights or a model of Keras, and not an export. {_GIVE}"
_PICKLE = f"a pickle, which runs code when it is loaded, so it never is. {_GIVE}"

# The name counts first: `.keras` files are zip archives too.
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


def resolve_version(path):
    """Returns the version directory that `path` means, a `pathlib.Path`.

    That is `path` itself if it holds a SavedModel; else its subdirectory with the highest number,
    the one that TensorFlow Serving loads: names that are no number, such as "latest", "1a" or "-1",
    are skipped as they are there. Two names of the highest number, "01" and "1", are a `UserError`,
    since nobody knows which of the two a server takes.
    """
    path = pathlib.Path(path)
    try:
        return require_loadable(_resolved(path))
    except PermissionError as error:
        raise unreadable(path, error) from error


def require_loadable(path):
    """Returns a path whose models TensorFlow finds again.

    It writes weights to any path, but takes the one that it reads them from for a pattern, in which
    "[" begins a set of characters.
    """
    place = os.path.abspath(path)
    if "[" in place:
        raise refused(
            path,
            f"TensorFlow cannot load a model from a path with a [ in it, as in {place}. Use "
            "another name.",
        )
    return path


def _resolved(path):
    if not path.is_dir():
        raise _not_a_directory(path)
    if (path / SAVED_MODEL).exists():
        return path
    versions = [(number, entry) for number, entry in _numbered(path) if entry.is_dir()]
    if not versions:
        raise refused(path, f"no {SAVED_MODEL} in {path}, and no version directory. {_GIVE}")
    highest, directory = max(versions)
    names = sorted(entry.name for number, entry in versions if number == highest)
    if len(names) > 1:
        raise refused(
            path,
            f"{' and '.join(names)} are the same version to TensorFlow Serving, which loads one of "
            "them. Remove or rename the others.",
        )
    if not (directory / SAVED_MODEL).exists():
        raise refused(
            directory,
            f"no {SAVED_MODEL} in {directory}, the highest version. If it is being copied, wait; "
            "else remove it or copy it again.",
        )
    return directory


def next_version(path):
    """Returns the number of the next version in the directory `<name>`: highest + 1, or 1.

    >>> next_version("saved_models/not_there_yet")
    1
    """
    path = pathlib.Path(path)
    if not os.path.lexists(path):
        return 1
    if not path.is_dir():
        raise refused(path, "not a directory, so no version can go there. Choose another name.")
    return max((number for number, _ in _numbered(path)), default=0) + 1


def _numbered(path):
    """Yields number and path of what lies in `path` under a name that is a number of 63 bits."""
    for entry in path.iterdir():
        if re.fullmatch("[0-9]{1,19}", entry.name) and int(entry.name) < 2**63:
            yield int(entry.name), entry


def _not_a_directory(path):
    if not os.path.lexists(path):
        return refused(path, f"no such directory (the current directory is {os.getcwd()}). {_GIVE}")
    if path.name == SAVED_MODEL:
        return refused(path, "a file of an export. Give the directory that it is in.")
    what = _BY_SUFFIX.get(path.suffix.lower()) or _by_first_bytes(path)
    return refused(path, what or f"not a directory. {_GIVE}")


def _by_first_bytes(path):
    # A pipe would wait for somebody to write into it.
    if path.is_file():
        with path.open("rb") as file:
            first_bytes = file.read(8)
        for beginning, what in _BY_FIRST_BYTES.items():
            if first_bytes.startswith(beginning):
                return what
    return None
