"""Errors that are the user's to fix, and file errors that name the file."""

import contextlib
import errno
import os
import sys
from typing import Any, Self


class UserError(ValueError):
    """A mistake in what the user gave: a file, a recipe, an argument.

    The error is a value: its parts say where the mistake is, what is wrong and how to fix it. They
    are rendered once, by `str`, into one line. The command line prints that line without a
    traceback and exits with code 2.

    Args:
        problem: what is wrong, as one sentence: what was expected and what was received.
        where: file, `file:line`, option or key in which the mistake is; None if the problem names
            it.
        fix: what the user can do, as one or more sentences.

    >>> str(UserError("the file is empty.", where="train.en", fix="Give a file with text."))
    'train.en: the file is empty. Give a file with text.'
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str | os.PathLike[str] | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = None if where is None else os.fspath(where)
        self.fix = fix

    def at(self, where: str | os.PathLike[str]) -> Self:
        """Returns the error located at `where`, unless it has a location already."""
        return self._with(where=os.fspath(where)) if self.where is None else self

    def _with(self, **changes: object) -> Self:
        return _rebuild(type(self), {**vars(self), **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), vars(self))

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        return place + " ".join(part for part in (self.problem, self.fix) if part)


class ArgumentError(UserError):
    """An argument, setting or key whose value is not allowed.

    Args:
        argument: name of the argument, such as "num_heads".
        expected: what the value must be, such as "a positive integer".
        got: the value that was received.
        fix: what the user can do, as one or more sentences.
        where: see `UserError`.

    >>> str(ArgumentError("num_heads", "a positive integer", 0))
    '`num_heads` must be a positive integer; got 0.'
    """

    def __init__(
        self,
        argument: str,
        expected: str,
        got: object,
        *,
        fix: str | None = None,
        where: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(f"must be {expected}; got {got!r}.", where=where, fix=fix)
        self.argument = argument
        self.expected = expected
        self.got = got

    def renamed(self, argument: str) -> Self:
        """Returns a copy of the error for an argument that is known by another name."""
        return self._with(argument=argument)

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        problem = f"`{self.argument}` must be {self.expected}; got {self.got!r}."
        return place + " ".join(part for part in (problem, self.fix) if part)


def _rebuild(kind: type[Any], values: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.__dict__.update(values)
    error.args = (error.problem,)
    return error


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
    except _tensorflow_errors() as error:
        reason = next((reason for reason in _REASONS if reason in error.message), None)
        if reason is None:
            raise
        raise _named(place, reason, remedy) from error
    except OSError as error:
        if error.errno is None:  # it is named already
            raise
        raise _named(error.filename or place, os.strerror(error.errno), remedy) from error


def _tensorflow_errors() -> tuple[type[Exception], ...]:
    """Base class of TensorFlow's errors, or nothing if TensorFlow has not been imported."""
    tensorflow = sys.modules.get("tensorflow")
    return () if tensorflow is None else (tensorflow.errors.OpError,)


def _named(place, reason, remedy):
    return OSError(f"{place}: {reason}. {remedy}")
