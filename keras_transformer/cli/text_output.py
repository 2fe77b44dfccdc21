"""Where a verb writes its lines: standard output, or a file that is there whole or not at all."""

import contextlib
import os
import pathlib
import sys

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file


def open_closed_streams():
    """Gives the null device to standard streams that were closed when Python started.

    Their numbers would otherwise go to the next files that are opened, and what is meant for
    standard error would be written there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def tell(text):
    """Writes a line to standard error, if anybody reads it."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def forget(stream):
    """Sends to the null device what Python would fail to write at its end, with a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def require_output_file(option, path, others=()):
    """Returns the absolute path of a file that can be written; else says why not, before any work.

    A file that is there already will be replaced.

    Args:
        option: The name of the option, for messages.
        path: The file.
        others: The other files of the command, None among them; it must be none of them.
    """
    # The target of a link is replaced, not the link.
    resolved = pathlib.Path(os.path.realpath(path))
    if resolved.is_dir():
        raise UserError(f"{path}: is a directory. Name a file in it with {option}.")
    if resolved.exists() and not resolved.is_file():
        raise UserError(
            f"{path}: is not a regular file. Name one with {option}, or redirect standard output."
        )
    if not resolved.parent.is_dir():
        raise UserError(f"{path}: there is no directory {resolved.parent}. Make it first.")
    if not os.access(resolved.parent, os.W_OK | os.X_OK):
        raise UserError(
            f"{path}: permission denied in {resolved.parent}. Name another file with {option}."
        )
    for other in others:
        if other is not None and resolved == pathlib.Path(os.path.realpath(other)):
            raise UserError(f"{path}: is read or written already. Name another file with {option}.")
    return resolved


@contextlib.contextmanager
def open_output(path):
    """Yields a function that writes strings, in UTF-8, to a file or (None) to standard output.

    What is written to standard output is there when the function returns; the file appears when
    the block ends well.
    """
    if path is not None:
        with atomic_file(path) as file:
            yield file.write
        return
    # Whatever the locale: what comes out is as much UTF-8 as what went in.
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")

    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    yield write


def one_line(text):
    """Returns a text that cannot break the line or the columns it stands in.

    >>> one_line("one\\n\\ttwo")
    'one  two'
    """
    return text.translate(_SPACES)


_SPACES = str.maketrans(dict.fromkeys("\t\n\r", " "))
