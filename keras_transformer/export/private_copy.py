"""A private copy of an export, whose files equal its manifest."""

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_transformer._utils.errors import UserError
from keras_transformer.export.damage import refused
from keras_transformer.export.manifest import (
    check_files,
    read_manifest,
)
from keras_transformer.export.versions import require_loadable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PrivateCopy(NamedTuple):
    """A copy of the files of an export that only this user can read and change.

    Attributes:
        original: the version directory.
        directory: the directory of the copy. It is removed when the context ends.
        manifest: the manifest.
        total_bytes: size of the files, without the manifest.
    """

    original: pathlib.Path
    directory: pathlib.Path
    manifest: dict[str, Any]
    total_bytes: int


@contextlib.contextmanager
def private_copy(
    directory: pathlib.Path, key: str | os.PathLike[str] | None = None
) -> Iterator[PrivateCopy]:
    """Copies an export and yields the `PrivateCopy`; what is read from it is what was checked.

    The files are compared with the manifest while they are copied, so a file that is replaced
    afterwards has no effect. The copy is below the directory for temporary files, `TMPDIR`.

    Args:
        directory: the version directory, from `resolve_version`.
        key: file with public keys, one of which must have signed the export. Default None, any.

    Raises:
        UserError: for files that differ from the manifest, or if there is no room for the copy. It
            names the original in place of the copy, also if the block raises it.
    """
    with tempfile.TemporaryDirectory(prefix="keras_transformer_") as temporary:
        copy = pathlib.Path(temporary, "1")
        try:
            manifest = read_manifest(directory, key, copy_to=copy)
            total_bytes = check_files(directory, manifest, copy_to=copy)
            yield PrivateCopy(directory, require_loadable(copy), manifest, total_bytes)
        except UserError as error:
            if error.where is None or not error.where.startswith(str(copy)):
                raise
            raise error.moved(f"{directory}{error.where.removeprefix(str(copy))}") from error
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise refused(
                directory,
                f"there is no room for a copy of it in {tempfile.gettempdir()} ({error.strerror}).",
                "Free some, or set TMPDIR to a directory on another disk.",
            ) from error
