"""Checks of the facts in an error, independent of its wording."""

from typing import Any

from keras_transformer._utils.errors import UserError
from keras_transformer.trainer.recipe_file import RecipeError

_ANYTHING = object()


def assert_mistake(
    error: BaseException,
    *facts: str,
    key: str | None = None,
    where: str | None = None,
    expected: str | None = None,
    got: Any = _ANYTHING,
    fix: str | None = None,
) -> UserError:
    """Checks the facts of an error with one mistake, and that it is rendered as one line.

    Args:
        error: A `UserError`; a `RecipeError` must have exactly one mistake.
        *facts: Texts that the line must contain, such as names and numbers.
        key: The argument, setting or dotted key that the mistake is about.
        where: The beginning of its location: a file, `file:line` or option.
        expected: Text in what was expected.
        got: The value that was received.
        fix: Text in what the user can do.

    Returns:
        The mistake.
    """
    assert isinstance(error, UserError), error
    if isinstance(error, RecipeError):
        assert len(error.mistakes) == 1, error
        assert str(error) == str(error.mistakes[0])
        (error,) = error.mistakes
    line = str(error)
    assert "\n" not in line, line
    assert not line.endswith(".."), line
    for fact in facts:
        assert fact in line, line
    if key is not None:
        assert error.argument == key, line
        assert f"`{key}`" in line, line
    if where is not None:
        assert (error.where or "").startswith(where), line
        assert line.startswith(f"{error.where}: "), line
    if expected is not None:
        assert expected in error.expected, line
        assert error.expected in line, line
    if got is not _ANYTHING:
        assert repr(error.got) == repr(got), line  # repr, because NaN is not equal to itself
        assert repr(got) in line, line
    if fix is not None:
        assert fix in error.fix, line
        assert line.endswith(error.fix), line
    return error
