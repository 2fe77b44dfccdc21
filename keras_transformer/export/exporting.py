"""Export of a trained model into a new version directory."""

import contextlib
import os
import pathlib
from typing import Any

from keras_transformer._utils.checks import require_choice, require_integer
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory, remove_leftovers
from keras_transformer.export.formats import FORMATS
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.versions import next_version, require_loadable


def export_model(
    run: TrainedModel | str | os.PathLike[str],
    to: str | os.PathLike[str],
    format: str = "saved_model",
    *,
    version: int | None = None,
    **settings: Any,
) -> pathlib.Path:
    """Writes a trained model as an export from strings to strings; returns its version directory.

    The version directory appears complete, by a rename, after a clean process without this package
    has loaded the export and given the same answers as the model in memory. If anything fails,
    nothing is left behind.

    Args:
        run: a run directory, or a `TrainedModel`.
        to: directory of all versions, such as `saved_models/dates`, named like the model.
        format: a registered export format. Default "saved_model".
        version: number of the version. Default: one more than the highest existing one.
        **settings: settings of the format. Those of `SavedModelFormat` are `search`, `limits`,
            `weights`, `xla` and `portable`.

    Example:

    ```python
    export_model("runs/dates", "saved_models/dates", weights="bfloat16")
    ```
    """
    require_choice("format", format, FORMATS)
    directory = _require_place(to)
    remove_leftovers(directory)  # of an export that was killed
    if version is None:
        version = next_version(directory)
    path = directory / str(require_integer("version", version, 0))
    if os.path.lexists(path):  # reported before any work
        fix = "Choose another version, or remove this one."
        raise UserError("exists already.", where=path, fix=fix)
    trained = run if isinstance(run, TrainedModel) else TrainedModel.load(run)
    writer = FORMATS[format](trained, **settings)
    is_new = not directory.exists()
    try:
        with atomic_directory(path) as temporary:
            writer.write(temporary, path.absolute().parent.name, version)
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it holds something
                directory.rmdir()
    return path


def _require_place(directory: str | os.PathLike[str]) -> pathlib.Path:
    path = pathlib.Path(os.path.abspath(directory))
    if not os.fspath(directory) or not path.name:
        raise UserError("needs a name, such as saved_models/NAME.", where=os.fspath(directory))
    for place in path.parents:
        if place.exists() and not place.is_dir():
            fix = f"Choose another place for {path.name}."
            raise UserError("is not a directory.", where=place, fix=fix)
    return require_loadable(pathlib.Path(directory))
