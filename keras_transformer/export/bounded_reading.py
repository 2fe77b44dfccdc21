"""Reading files that nobody has vouched for: no links, no pipes, no more than expected."""

import errno
import hashlib
import os
import stat

from keras_transformer.export.damage import damaged, refused, unreadable

_CHUNK = 1 << 20


def read_bounded(directory, name, most_bytes):
    """Returns the bytes of a file in `directory`; a `UserError` if there are more than that.

    Args:
        directory: a `pathlib.Path`.
        name: of the file, relative to it.
        most_bytes: how many it may have. The size is looked at before anything is read.
    """
    with open_regular(directory, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise refused(
                directory,
                f"{name}: {size:,} bytes, but at most {most_bytes:,} are read. It is not what "
                "`keras-transformer export` writes: give another directory.",
            )
        return file.read(most_bytes)


def sha256_of(directory, name):
    """Returns the sha256 of a file in hex, and the number of its bytes."""
    digest, size = hashlib.sha256(), 0
    with open_regular(directory, name) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def open_regular(directory, name):
    """Opens a file for reading bytes if it is one, and not a link, a pipe or a device."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody to write into it.
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise damaged(directory, name, "missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:  # what O_NOFOLLOW says of a link
            raise symbolic_link(directory, name) from error
        raise unreadable(directory / name, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refused(directory, f"{name}: not a regular file. Copy the directory again.")
    return os.fdopen(descriptor, "rb")


def symbolic_link(directory, name):
    """Returns the `UserError` for a link, which could lead anywhere."""
    return refused(
        directory,
        f"{name}: a symbolic link, but an export holds its files itself. Copy the directory with "
        "`cp -rL`, and verify the copy.",
    )
