"""Models that a server offers, from a directory or a TensorFlow Serving configuration file."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

from keras_transformer._utils.errors import UserError
from keras_transformer.export.saved_model_file import SAVED_MODEL
from keras_transformer.export.versions import numbered_versions, resolve_version

_NO_VERSIONS = "Export a model with `keras-transformer export`, or give its directory."


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model that is served.

    Args:
        name: name of the model in requests.
        directory: directory of its versions, `<directory>/<number>/`.
        latest: how many of the highest versions are served; None for all. Default 1.
        only: numbers of the versions that are served; None for a choice by `latest`.
        labels: number of the version of each label.
    """

    name: str
    directory: pathlib.Path
    latest: int | None = 1
    only: tuple[int, ...] | None = None
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def wanted(self, numbers: list[int]) -> list[int]:
        """Returns the versions to serve, of those that are there and can be loaded; highest first.

        >>> ModelSource("dates", pathlib.Path("dates"), latest=2).wanted([1, 3, 2])
        [3, 2]
        """
        numbers = sorted(numbers, reverse=True)
        if self.only is not None:
            return [number for number in numbers if number in self.only]
        return numbers if self.latest is None else numbers[: self.latest]


def find_models(directory: str | os.PathLike[str], name: str | None = None) -> list[ModelSource]:
    """Returns the models of a directory.

    Args:
        directory: `saved_models` with a directory for each model, the directory of one model, or a
            version directory.
        name: name of the model in requests, if the directory has only one. Default: the name of
            the model's directory.
    """
    path = pathlib.Path(os.path.abspath(directory))
    if not path.is_dir():
        resolve_version(directory)  # raises an error that describes it
    if (path / SAVED_MODEL).exists():
        if not path.name.isascii() or not path.name.isdecimal():
            problem = "is an export, but its name is not a version number."
            raise UserError(problem, where=directory, fix="Rename it to <name>/<number>.")
        return [ModelSource(name or path.parent.name, path.parent, only=(int(path.name),))]
    if any(entry.is_dir() for _, entry in numbered_versions(path)):
        return [ModelSource(name or path.name, path)]
    found = [
        ModelSource(entry.name, entry)
        for entry in sorted(path.iterdir())
        if entry.is_dir() and not entry.name.startswith(".")
        if any(each.is_dir() for _, each in numbered_versions(entry))
    ]
    if not found:
        raise UserError("holds no <name>/<version>/.", where=directory, fix=_NO_VERSIONS)
    if name is not None:
        problem = "holds directories of models, which have names of their own."
        raise UserError(problem, where=directory, fix="Give the directory of one model.")
    return found


def read_model_config(path: str | os.PathLike[str]) -> list[ModelSource]:
    """Returns the models of a configuration file of TensorFlow Serving, in its text format.

    Example of a file:

    ```
    model_config_list {
      config {
        name: "dates"
        base_path: "saved_models/dates"
        model_platform: "tensorflow"
        model_version_policy { specific { versions: 1 versions: 2 } }
        version_labels { key: "stable" value: 1 }
      }
    }
    ```

    Args:
        path: path of the file. Relative base paths in it begin at the file's directory.
    """
    from google.protobuf import text_format

    from keras_transformer.serving.messages import model_server_config_pb2

    try:
        content = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read ({error}).", where=path) from error
    config = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(content, config)
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        where = str(path) if line is None else f"{os.fspath(path)}:{line}:{column}"
        problem = str(error).partition(" : ")[2] or str(error)
        fix = "The format is that of TensorFlow Serving's --model_config_file."
        raise UserError(f"{problem.strip()}.", where=where, fix=fix) from error
    sources = [_source(path, each) for each in config.model_config_list.config]
    if not sources:
        fix = 'Write model_config_list { config { name: "…" base_path: "…" } }.'
        raise UserError("names no model.", where=path, fix=fix)
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the model {name!r} occurs twice.", where=path)
    return sources


def _source(path: str | os.PathLike[str], config: object) -> ModelSource:
    name, base_path = config.name, config.base_path  # type: ignore[attr-defined]
    if not name or not base_path:
        raise UserError("a model needs `name` and `base_path`.", where=path)
    platform = config.model_platform  # type: ignore[attr-defined]
    if platform not in ("", "tensorflow"):
        problem = f"model {name!r}: the platform must be tensorflow; got {platform!r}."
        raise UserError(problem, where=path)
    directory = pathlib.Path(os.path.abspath(pathlib.Path(path).parent / base_path))
    policy = config.model_version_policy  # type: ignore[attr-defined]
    labels = dict(config.version_labels)  # type: ignore[attr-defined]
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return ModelSource(name, directory, latest=None, labels=labels)
    if choice == "specific":
        return ModelSource(name, directory, only=tuple(policy.specific.versions), labels=labels)
    latest = policy.latest.num_versions if choice == "latest" else 0
    return ModelSource(name, directory, latest=latest or 1, labels=labels)
