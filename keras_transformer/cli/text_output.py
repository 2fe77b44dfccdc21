"""Output of the verbs: standard streams, and files that are written atomically."""

import contextlib
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_file

_Path = str | os.PathLike[str]

_SPACES = str.maketrans(dict.fromkeys("\t\n\r", " "))


def open_closed_streams() -> None:
    """Connects standard streams that were closed when Python started to the null device.

    Otherwise the next files that are opened get their numbers, and what is meant for standard error
    would be written into them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def tell(text: object) -> None:
    """Writes a line to standard error; errors in writing are ignored."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def forget(stream: TextIO) -> None:
    """Connects a stream to the null device, so that Python's final flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def require_output_file(
    option: str, path: _Path, others: Iterable[_Path | None] = ()
) -> pathlib.Path:
    """Returns the absolute path of a file that can be written; an existing file will be replaced.

    Args:
        option: name of the option, for messages.
        path: the file.
        others: the other files of the command, with None for missing ones; the file must not be one
            of them.

    Raises:
        UserError: if the file cannot be written.
    """
    # The target of a link is replaced, not the link.
    resolved = pathlib.Path(os.path.realpath(path))
    another = f"Name another file with {option}."
    if resolved.is_dir():
        raise UserError("is a directory.", where=path, fix=f"Name a file in it with {option}.")
    if resolved.exists() and not resolved.is_file():
        raise UserError(
            "is not a regular file.",
            where=path,
            fix=f"Name one with {option}, or redirect standard output.",
        )
    if not resolved.parent.is_dir():
        raise UserError(
            f"there is no directory {resolved.parent}.", where=path, fix="Create it first."
        )
    if not os.access(resolved.parent, os.W_OK | os.X_OK):
        raise UserError(f"permission denied in {resolved.parent}.", where=path, fix=another)
    for other in others:
        if other is not None and resolved == pathlib.Path(os.path.realpath(other)):
            raise UserError("is already read or written.", where=path, fix=another)
    return resolved


@contextlib.contextmanager
def open_output(path: _Path | None) -> Iterator[Callable[[str], object]]:
    """Yields a function that writes strings, in UTF-8, to a file or to standard output.

    Standard output is flushed after each string. A file appears when the block ends without an
    error.

    Args:
        path: the file, or None for standard output.
    """
    if path is not None:
        with atomic_file(path) as file:
            yield file.write
        return
    # The output is UTF-8 like the input, whatever the locale.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    yield write


def one_line(text: str) -> str:
    """Returns a text with spaces in place of tabs and line breaks.

    >>> one_line("one\\n\\ttwo")
    'one  two'
    """
    return text.translate(_SPACES)
