"""Reading of untrusted files with limits, and the errors for damaged exports."""

import errno
import hashlib
import os
import stat

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError


def damaged(directory, name, what):
    """Returns the `UserError` for a file of an export that is not as it was written.

    >>> print(damaged("saved_models/dates/1", "saved_model.pb", "zero bytes"))
    saved_models/dates/1: damaged: saved_model.pb: zero bytes. Copy the directory again, or export
    again.
    """
    return refused(
        directory, f"damaged: {name}: {what}. Copy the directory again, or export again."
    )


def refused(directory, why):
    """Returns the `UserError` for an export: its directory, what is wrong, what to do.

    Names and texts in it may come from a file that somebody made to fool a terminal: nothing that
    breaks the line or moves the cursor is left.
    """
    return UserError(shown(f"{directory}: {why}"))


def unreadable(path, error):
    """Returns the `UserError` for a file or directory that the system does not let us read."""
    return refused(path, f"cannot be read ({error.strerror}). Make it readable, or copy it again.")


def no_tensorflow_text(directory, why):
    """Returns the `UserError` for an export whose operations are not there."""
    return refused(
        directory,
        f"its graph holds ops of tensorflow_text, which cannot be imported here ({why}). Install "
        "it in the version of your TensorFlow (pip install tensorflow-text), and import "
        "tensorflow_text before you load the model.",
    )


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
