"""Bounded reading of untrusted files, and the errors for damaged exports."""

import errno
import hashlib
import io
import os
import pathlib
import stat

from keras_transformer._utils.console import shown
from keras_transformer._utils.errors import UserError

_Path = str | os.PathLike[str]

_CHUNK = 1 << 20

COPY_AGAIN = "Copy the directory again, or export again."


def refused(directory: _Path, problem: str, fix: str | None = None) -> UserError:
    """Returns the `UserError` for an export that is not loaded.

    Line breaks and control characters are escaped, because names and texts in the message may come
    from a file that was made to manipulate a terminal.

    Args:
        directory: of the export.
        problem: what is wrong, one or more sentences.
        fix: what the user can do.
    """
    return UserError(shown(problem), where=shown(os.fspath(directory)), fix=fix and shown(fix))


def damaged(directory: _Path, name: str, problem: str) -> UserError:
    """Returns the `UserError` for a file of an export that has changed since it was written.

    >>> print(damaged("saved_models/dates/1", "saved_model.pb", "zero bytes"))
    saved_models/dates/1: damaged: saved_model.pb: zero bytes. Copy the directory again, or export
    again.
    """
    return refused(directory, f"damaged: {name}: {problem}.", COPY_AGAIN)


def unreadable(path: _Path, error: OSError) -> UserError:
    """Returns the `UserError` for a file or directory that cannot be read."""
    problem = f"cannot be read ({error.strerror})."
    return refused(path, problem, "Make it readable, or copy it again.")


def no_tensorflow_text(directory: _Path, reason: object) -> UserError:
    """Returns the `UserError` for an export whose operations are missing in this process."""
    return refused(
        directory,
        f"its graph holds ops of tensorflow_text, which cannot be imported here ({reason}).",
        "Install it in the version of your TensorFlow (pip install tensorflow-text), and import "
        "tensorflow_text before you load the model.",
    )


def symbolic_link(directory: _Path, name: str) -> UserError:
    """Returns the `UserError` for a symbolic link, which could point anywhere."""
    return refused(
        directory,
        f"{name}: a symbolic link, but an export must hold its files itself.",
        "Copy the directory with `cp -rL`, and verify the copy.",
    )


def read_bounded(directory: pathlib.Path, name: str, maximum_bytes: int) -> bytes:
    """Returns the content of a file in `directory`; a larger file is a `UserError`.

    Args:
        directory: directory of the file.
        name: name of the file, relative to the directory.
        maximum_bytes: largest allowed size. It is compared before anything is read.
    """
    with open_regular(directory, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > maximum_bytes:
            raise refused(
                directory,
                f"{name}: {size:,} bytes, but at most {maximum_bytes:,} are read. It is not what "
                "`keras-transformer export` writes.",
                "Give another directory.",
            )
        return file.read(maximum_bytes)


def sha256_of(directory: pathlib.Path, name: str) -> tuple[str, int]:
    """Returns the sha256 of a file in hex, and its size in bytes."""
    with open_regular(directory, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


def copied_sha256(
    directory: pathlib.Path, name: str, copy_to: pathlib.Path, maximum_bytes: int
) -> tuple[str, int]:
    """Copies a file, and returns the sha256 of the copy in hex, and its size in bytes.

    Args:
        directory: directory of the file.
        name: name of the file, relative to the directory.
        copy_to: directory of the copy, which gets the same name.
        maximum_bytes: size at which copying stops: one more byte is copied.
    """
    sha256, size = hashlib.sha256(), 0
    (copy_to / name).parent.mkdir(parents=True, exist_ok=True)
    with open_regular(directory, name) as file, open(copy_to / name, "xb") as copy:
        while chunk := file.read(min(_CHUNK, maximum_bytes + 1 - size)):
            size += copy.write(chunk)
            sha256.update(chunk)
    return sha256.hexdigest(), size


def open_regular(directory: pathlib.Path, name: str) -> io.BufferedReader:
    """Opens a regular file for reading bytes; links, pipes and devices are refused."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait until another process opens it for writing.
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise damaged(directory, name, "missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:  # O_NOFOLLOW reports a link so
            raise symbolic_link(directory, name) from error
        raise unreadable(directory / name, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refused(directory, f"{name}: not a regular file.", "Copy the directory again.")
    return os.fdopen(descriptor, "rb")
