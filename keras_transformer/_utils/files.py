"""Files and directories that are there whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import shutil

from keras_transformer._utils.errors import UserError


@contextlib.contextmanager
def atomic_file(path, mode="w"):
    """Opens `path` for writing what appears there only when all of it is on disk.

    It goes to a file beside it, which is renamed at the end. When anything fails on the way, such
    as a full disk, that file is removed and whatever stood at `path` is left alone.

    Args:
        path: of the file.
        mode: "w" for text, written as UTF-8 with LF at the end of lines, or "wb" for bytes.

    Example:

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_file(path) as file:
    ...     _ = file.write("all of it")
    ...     path.exists()
    False
    >>> path.read_text()
    'all of it'
    """
    path, temporary = _with_neighbor(path)
    try:
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
        with temporary.open(mode, **text) as file:
            yield file
        _flush_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_to_disk(path.parent)


@contextlib.contextmanager
def atomic_directory(path):
    """Yields a temporary directory beside `path` that takes its name when the block ends well.

    Its files are on the disk before the rename, so that neither a crash nor a full disk leaves half
    a directory under the final name. After an error the temporary directory is removed. Nothing is
    ever overwritten: a `path` that exists and is not an empty directory is a `UserError`.

    Example:

    >>> import tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "whole"
    >>> with atomic_directory(target) as temporary:
    ...     _ = (temporary / "part.txt").write_text("text")
    ...     target.exists()
    False
    >>> (target / "part.txt").read_text()
    'text'
    """
    path, temporary = _with_neighbor(path)
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(
            f"{path}: exists already. Choose another directory, or remove this one first."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.mkdir()
    try:
        yield temporary
        for entry in [*temporary.rglob("*"), temporary]:
            _flush_to_disk(entry)
        # Fails if somebody else has put something there meanwhile.
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _flush_to_disk(path.parent)


def _with_neighbor(path):
    """The absolute path, and a hidden one beside it that nobody else uses."""
    path = pathlib.Path(os.path.abspath(path))
    return path, path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _flush_to_disk(path):
    """A file's bytes, or the names in a directory, are on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
