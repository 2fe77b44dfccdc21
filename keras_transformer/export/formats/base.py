"""Base class and registry of the export formats."""

import abc
import pathlib
from collections.abc import Callable
from typing import ClassVar, TypeVar

from keras_transformer._utils.registry import register
from keras_transformer.export.trained_model import TrainedModel

#: The registered export formats by name.
FORMATS: dict[str, type["ExportFormat"]] = {}

_Format = TypeVar("_Format", bound=type["ExportFormat"])


def register_export_format(name: str) -> Callable[[_Format], _Format]:
    """Returns a decorator that registers an `ExportFormat` by `name`."""
    return register(FORMATS, name)


class ExportFormat(abc.ABC):
    """Base of the export formats.

    A format is one file in this folder. Its constructor takes the trained model and the settings of
    the format, and reports mistakes in them before any work; `write` writes the files:

        @register_export_format("onnx")
        class OnnxFormat(ExportFormat):
            def __init__(self, trained, *, opset=17): ...

            def write(self, directory, name, version): ...

    Args:
        trained: a `TrainedModel`.
    """

    #: Name by which the format is registered.
    registered_name: ClassVar[str]

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained

    @abc.abstractmethod
    def write(self, directory: pathlib.Path, name: str, version: int) -> None:
        """Writes the export, and checks that it answers as the model in memory.

        Args:
            directory: an empty directory, which becomes the version directory on success.
            name: name of the model.
            version: number of the version.
        """
