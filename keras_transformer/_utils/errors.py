"""Errors that the user can fix, as values, and file errors that name the file."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from keras_transformer._utils.console import shown


class UserError(ValueError):
    """Raised for a mistake of the user in a file, a recipe or an argument.

    The error is a value: its parts say where the mistake is, what is wrong and how to fix it. `str`
    renders them into one line, which the command line prints before it exits with code 2.

    Args:
        problem: What is wrong, as one sentence: what was expected and what was received.
        where: File, `file:line` or option in which the mistake is.
        fix: What the user can do, as one or more sentences.
        argument: Name of the argument, setting or key that the problem is about.
        related: Names of other arguments that help to locate the mistake; they are not rendered.

    >>> str(UserError("the file is empty.", where="train.en", fix="Give a file with text."))
    'train.en: the file is empty. Give a file with text.'
    >>> str(UserError("names no files.", argument="data.test"))
    '`data.test`: names no files.'
    """

    #: Makes AutoGraph raise the error unchanged inside a `tf.function`. AutoGraph cannot copy an
    #: error with such a constructor, and would raise a `StagingError`, which is no `ValueError`.
    ag_pass_through: ClassVar[bool] = True
    #: Makes Keras raise the error unchanged in a layer's call; its own wrapping drops the `fix`.
    _keras_call_info_injected: ClassVar[bool] = True

    def __init__(
        self,
        problem: str,
        *,
        where: str | os.PathLike[str] | None = None,
        fix: str | None = None,
        argument: str | None = None,
        related: tuple[str, ...] = (),
    ) -> None:
        super().__init__(problem)
        self.problem: str = problem
        self.where: str | None = None if where is None else os.fspath(where)
        self.fix: str | None = fix
        self.argument = argument
        self.related: tuple[str, ...] = tuple(related)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of all arguments that the mistake is about, the main one first."""
        return (() if self.argument is None else (self.argument,)) + self.related

    def at(self, where: str | os.PathLike[str]) -> Self:
        """Returns the error located at `where`, unless it has a location already."""
        return self.moved(where) if self.where is None else self

    def moved(self, where: str | os.PathLike[str] | None) -> Self:
        """Returns a copy of the error located at `where`, in place of its own location."""
        return self._with(where=None if where is None else os.fspath(where))

    def renamed(self, argument: str | Mapping[str, str]) -> Self:
        """Returns a copy of the error with another name of the argument, or with all names mapped.

        >>> error = ArgumentError("key_dim", "even", 3, related=("num_heads",))
        >>> error.renamed({"key_dim": "model.key_dim", "num_heads": "model.num_heads"}).arguments
        ('model.key_dim', 'model.num_heads')
        """
        if isinstance(argument, str):
            return self._with(argument=argument)
        main = None if self.argument is None else argument.get(self.argument, self.argument)
        related = tuple(argument.get(name, name) for name in self.related)
        return self._with(argument=main, related=related)

    def _with(self, **changes: object) -> Self:
        return _rebuild(type(self), {**vars(self), **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), vars(self))

    def __str__(self) -> str:
        place = "" if self.where is None else f"{self.where}: "
        # Names of files and values may contain anything.
        return shown(place + " ".join(part for part in (self._sentence(), self.fix) if part))

    def _sentence(self) -> str:
        return self.problem if self.argument is None else f"`{self.argument}`: {self.problem}"


class ArgumentError(UserError):
    """An argument, setting or key that must be `expected`, but is `got`.

    >>> str(ArgumentError("num_heads", "a positive integer", 0))
    '`num_heads` must be a positive integer; got 0.'
    """

    argument: str

    def __init__(
        self,
        argument: str,
        expected: str,
        got: object,
        *,
        fix: str | None = None,
        where: str | os.PathLike[str] | None = None,
        related: tuple[str, ...] = (),
    ) -> None:
        problem = f"must be {expected}; got {got!r}."
        super().__init__(problem, where=where, fix=fix, argument=argument, related=related)
        self.expected: str = expected
        self.got: object = got

    def _sentence(self) -> str:
        return f"`{self.argument}` {self.problem}"


def _rebuild(kind: type[UserError], values: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.__dict__.update(values)
    error.args = (error.problem,)
    return error


# TensorFlow has errors of its own, of several kinds, which contain the system's messages.
_CODES = ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "ESTALE", "EACCES")
_REASONS = [os.strerror(getattr(errno, code)) for code in _CODES]


@contextlib.contextmanager
def named_file_errors(
    place: str | os.PathLike[str], remedy: str = "Fix the cause and run the same command again."
) -> Iterator[None]:
    """Turns a file error inside the block into an `OSError` whose one line names the file.

    TensorFlow's errors about files become an `OSError`, too; its other errors pass unchanged.
    `place` is a path for errors that do not name the file, `remedy` what the user can do.

    >>> with named_file_errors("metrics.jsonl", remedy="Free some space."):
    ...     raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    Traceback (most recent call last):
    OSError: metrics.jsonl: No space left on device. Free some space.
    """
    try:
        yield
    except _tensorflow_errors() as error:
        message = getattr(error, "message", "")
        reason = next((reason for reason in _REASONS if reason in message), None)
        if reason is None:
            raise
        raise OSError(f"{shown(str(place))}: {reason}. {remedy}") from error
    except OSError as error:
        if error.errno is None:  # already named
            raise
        name = error.filename or place
        raise OSError(f"{shown(str(name))}: {os.strerror(error.errno)}. {remedy}") from error


def _tensorflow_errors() -> tuple[type[BaseException], ...]:
    """Returns the base class of TensorFlow's errors, or nothing if TensorFlow is not imported."""
    tensorflow = sys.modules.get("tensorflow")
    return () if tensorflow is None else (tensorflow.errors.OpError,)
