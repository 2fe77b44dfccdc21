"""What goes wrong with files, told in one line that names the place."""

import contextlib
import errno
import os

import tensorflow as tf


class UserError(ValueError):
    """A mistake in what the user gave: a file, a recipe, an argument.

    The message is one line: where it is, what is wrong, what to do. The command line prints it
    without a traceback and exits with code 2.
    """


# TensorFlow has errors of its own, of several kinds; the system's words are in all of them.
_REASONS = tuple(
    os.strerror(code)
    for code in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EROFS,
        errno.ESTALE,
        errno.EACCES,
    )
)

_REMEDY = "Put that right, and the same command goes on from the last checkpoint."


@contextlib.contextmanager
def named_file_errors(place, remedy=_REMEDY):
    """Inside, a file that cannot be written is an `OSError` whose one line names the place.

    TensorFlow's own errors about files become one, too; all its other errors pass as they are.

    Args:
        place: a path, for errors that do not say which file it was.
        remedy: what the user can do, a sentence; by default that of a training.

    >>> with named_file_errors("runs/dates/metrics.jsonl"):
    ...     raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    Traceback (most recent call last):
    OSError: runs/dates/metrics.jsonl: No space left on device. Put that right, and the same command
    goes on from the last checkpoint.
    """
    try:
        yield
    except tf.errors.OpError as error:
        reason = next((reason for reason in _REASONS if reason in error.message), None)
        if reason is None:
            raise
        raise _named(place, reason, remedy) from error
    except OSError as error:
        if error.errno is None:  # it is named already
            raise
        raise _named(error.filename or place, os.strerror(error.errno), remedy) from error


def _named(place, reason, remedy):
    return OSError(f"{place}: {reason}. {remedy}")
