"""Atomic writing: files and directories that appear complete or not at all."""

import contextlib
import fcntl
import os
import pathlib
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import IO, Any

from keras_transformer._utils.errors import UserError

#: Names of temporary files and directories of this module: `.<name>.<16 hexadecimal digits>`.
LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}", re.S)

_SECONDS_TO_LOCK = 5


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a temporary file that takes the name `path` when the block ends without an error.

    After an error, such as a full disk, the temporary file is removed, and a file that was at
    `path` before is unchanged. `mode` is "w" for text (UTF-8 with LF line ends) or "wb" for bytes.

    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_file(path) as file:
    ...     _ = file.write("all of it")
    ...     path.exists()
    False
    >>> path.read_text()
    'all of it'
    """
    path, temporary = _with_temporary(path)
    try:
        encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
        with temporary.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        _flush_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_to_disk(path.parent)


@contextlib.contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a temporary directory that takes the name `path` when the block ends without an error.

    Its files are on the disk before it is renamed: neither a crash nor a full disk leaves an
    incomplete directory under the final name. After an error the temporary directory is removed.
    Anything at `path` except an empty directory is a `UserError`.
    """
    path, temporary = _with_temporary(path)
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        fix = "Choose another directory, or remove this one first."
        raise UserError("exists already.", where=path, fix=fix)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.mkdir()
    # The lock of a process that is killed ends, see `remove_leftovers`.
    lock = os.open(temporary, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        for entry in [*temporary.rglob("*"), temporary]:
            _flush_to_disk(entry)
        # Fails if another process has created the directory since.
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    _flush_to_disk(path.parent)


def remove_leftovers(directory: str | os.PathLike[str]) -> None:
    """Removes temporary directories that killed processes have left in a directory.

    Those of running processes are locked, and stay. So do all on a file system without locks.

    >>> import tempfile, time
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> (directory / ".1.0123456789abcdef").mkdir()
    >>> hours_ago = time.time() - 9999
    >>> os.utime(directory / ".1.0123456789abcdef", (hours_ago, hours_ago))
    >>> remove_leftovers(directory)
    >>> os.listdir(directory)
    []
    """
    directory = pathlib.Path(directory)
    for entry in directory.iterdir() if directory.is_dir() else ():
        with contextlib.suppress(OSError):
            if not LEFTOVER.fullmatch(entry.name) or entry.is_symlink() or not entry.is_dir():
                continue
            lock = os.open(entry, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A process locks its directory at once, but after it has created it.
                if time.time() - entry.stat().st_mtime > _SECONDS_TO_LOCK:
                    shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(lock)


def _with_temporary(path: str | os.PathLike[str]) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the absolute path, and the path of a new hidden file in the same directory."""
    path = pathlib.Path(os.path.abspath(path))
    return path, path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _flush_to_disk(path: pathlib.Path) -> None:
    """Waits until the content of a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
