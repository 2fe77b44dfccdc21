"""From paths and patterns to the files they mean."""

import glob
import os

from keras_transformer.errors import UserError


def find_files(name, paths):
    """Returns the files that `paths` means, patterns expanded in sorted order.

    Args:
        name: The name of the argument, for messages.
        paths: A path, a pattern such as `"parts/*.gz"`, or a list of them. A path that exists is
            taken literally, also when it holds `*`, `?` or `[`.

    Raises:
        UserError: If a pattern matches nothing, or there are no paths at all.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise ValueError(
                f"`{name}` must be a path or a list of paths; got {path!r} among them."
            )
        path = os.fspath(path)
        if any(letter in path for letter in "*?[") and not os.path.lexists(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise UserError(
                    f"{path}: no file matches this pattern (the current directory is "
                    f"{os.getcwd()}). Check the pattern."
                )
            files.extend(matches)
        else:
            files.append(path)
    if not files:
        raise UserError(f"`{name}` names no files; give at least one path or pattern.")
    return tuple(files)
