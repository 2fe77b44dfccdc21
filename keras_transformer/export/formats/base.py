"""Base class and registry of the export formats."""

import abc
import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import keras
import tensorflow as tf

from keras_transformer import __version__
from keras_transformer._utils.registry import register
from keras_transformer.export.modules import TextModule
from keras_transformer.export.private_copy import PrivateCopy
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.export.verification import Verification

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

    The manifest of an export names its format as "export_format", unless it is a SavedModel, and
    `verify` checks such an export. `RuntimeFormat` is the base of formats with another runtime.

    Args:
        trained: a `TrainedModel`.
    """

    #: Name by which the format is registered.
    registered_name: ClassVar[str]

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained

    @abc.abstractmethod
    def write(self, directory: pathlib.Path, name: str, version: int) -> None:
        """Writes the export, and checks that it gives the same answers as the model in memory.

        Args:
            directory: an empty directory, which becomes the version directory on success.
            name: name of the model.
            version: number of the version.
        """

    @classmethod
    def verify(cls, copy: PrivateCopy) -> Verification:
        """Checks an export in this format without trusting any of its files.

        Args:
            copy: a `PrivateCopy`, whose files equal the manifest.
        """
        raise NotImplementedError(f"{cls.__name__} must implement `verify`.")


def described_export(
    trained: TrainedModel,
    module: TextModule,
    name: str,
    version: int,
    tensorflow_text: str | None = None,
) -> dict[str, Any]:
    """Returns the manifest entries that all formats have in common.

    Args:
        trained: the `TrainedModel`.
        module: its `TextModule`.
        name: name of the export.
        version: number of the version.
        tensorflow_text: version of tensorflow_text, if the export needs it. Default None.
    """
    tokenizers = {"source": module.source_tokenizer, "target": module.target_tokenizer}
    return {
        "name": name,
        "version": version,
        "created_with": {
            "keras_transformer": __version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "tensorflow_text": tensorflow_text,
        },
        "kind": type(trained.model).__name__,
        "model": dataclasses.asdict(trained.model.config),
        "recipe": trained.recipe,
        "quality": trained.quality,
        "tokenizers": {
            side: {"kind": each.registered_name, "size": each.vocabulary_size, "hash": each.hash}
            for side, each in tokenizers.items()
        },
        "search": _described_search(module),
        "limits": dataclasses.asdict(module.limits),
        "ops": {"outside_core": []},
        "xla": False,
    }


def described_weights(model: keras.Model, dtype: str, difference: Any) -> dict[str, Any]:
    """Returns the manifest entries about the stored weights.

    Args:
        model: the model in memory.
        dtype: dtype in which its weights are stored.
        difference: how the answers differ from those with exact weights, or None.
    """
    parameters = sum(weight.shape.num_elements() for weight in model.weights)
    return {"dtype": dtype, "parameters": parameters, "difference": difference}


def _described_search(module: TextModule) -> dict[str, Any] | None:
    """Returns the settings of a module's search for JSON, or None if it does not search."""
    searches = getattr(module, "searches", None)
    if searches is None:
        return None
    search = searches["serving_default"]
    constraints = [
        {"kind": type(each).__name__, **dataclasses.asdict(each)} for each in search.constraints
    ]
    settings = {**dataclasses.asdict(search), "constraints": constraints}
    return {"kind": type(search).__name__, **settings}
