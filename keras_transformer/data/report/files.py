"""The data report on disk: `report.json`, and `report.png` beside it."""

import json
import os
import pathlib

from keras_transformer.atomic import atomic_file
from keras_transformer.data.report.data_report import FORMAT
from keras_transformer.data.report.picture import draw_data_report
from keras_transformer.errors import UserError

JSON_NAME = "report.json"
PICTURE_NAME = "report.png"


def require_report_directory(output):
    """Returns the directory, there or not yet, if a report may be written into it.

    An earlier report may be there and will be replaced; other files of the same names never are.
    Nothing is made: a run that fails leaves nothing behind.
    """
    directory = pathlib.Path(os.path.abspath(output))
    nearest = next(path for path in [directory, *directory.parents] if os.path.lexists(path))
    if not nearest.is_dir():
        raise _not_writable(directory, f"{nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _not_writable(directory, f"{nearest}: permission denied")
    taken = [name for name in (JSON_NAME, PICTURE_NAME) if os.path.lexists(directory / name)]
    if taken and not _is_report(directory / JSON_NAME):
        raise UserError(
            f"{directory / taken[0]}: exists and is not of a data report. Name another directory "
            "with `output`, or move the file away."
        )
    return directory


def save_data_report(report, output):
    """Writes both files, each whole or not at all; returns their paths.

    Args:
        report: from `make_data_report`.
        output: the directory, see `require_report_directory`.
    """
    directory = require_report_directory(output)
    picture = draw_data_report(report)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(directory, error.strerror) from error
    # One line for each key: as short as can be, and still to be searched with grep.
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in report.items())
    with atomic_file(directory / JSON_NAME) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    with atomic_file(directory / PICTURE_NAME, "wb") as file:
        file.write(picture)
    return directory / JSON_NAME, directory / PICTURE_NAME


def _is_report(path):
    try:
        return json.loads(path.read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _not_writable(directory, reason):
    return UserError(
        f"{directory}: the report cannot be written there ({reason}). Name another directory with "
        "`output`."
    )
