"""A trained model on disk: weights, configuration and tokenizers, as a run directory holds them."""

import dataclasses
import json
import os
import pathlib
from typing import Any, Self

import keras

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer.decoding import SearchSettings
from keras_transformer.export.damage import sha256_of
from keras_transformer.export.run_manifest import RUN_MANIFEST, RunManifest
from keras_transformer.export.strict_json import parse_json
from keras_transformer.models import MODELS
from keras_transformer.text import TokenizerPair

#: Directory inside a run directory that holds its trained model.
MODEL_DIRECTORY = "model"
#: File inside a run directory with the recipe of the training.
RUN_RECIPE = "recipe.yaml"
_PLACES = (".", MODEL_DIRECTORY)
DESCRIPTION, WEIGHTS, TOKENIZERS = "model.json", "model.weights.h5", "tokenizers"
FORMAT = 2

_COPY_AGAIN = "Copy the model again, or train it again."
# Types of the required keys of a description.
_TYPES: dict[str, Any] = {
    "class": str,
    "config": dict,
    "weights_sha256": str,
    "recipe": dict | None,
    "quality": dict | None,
    "examples": list,
    "labels": list,
}


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model, the tokenizers that it was trained with, and what is known about it.

    The special ids of model and tokenizers must be equal.

    Args:
        model: a `Transformer` or another model of this package.
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides.
        recipe: the recipe of the training, a dictionary for JSON. Default None.
        quality: metrics, such as `{"bleu": 41.2}`. Default None.
        examples: source texts with which an export is tested. Default: none.
        labels: names of a classifier's classes. Default: their numbers.

    >>> import tempfile
    >>> from keras_transformer import Transformer
    >>> from keras_transformer.text import ByteTokenizer
    >>> model = Transformer.from_size("tiny", vocabulary_size=260)
    >>> directory = tempfile.mkdtemp() + "/run"
    >>> TrainedModel(model, TokenizerPair(ByteTokenizer())).save(directory)
    >>> TrainedModel.load(directory).model.count_params() == model.count_params()
    True
    """

    model: keras.Model
    tokenizers: TokenizerPair
    recipe: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None
    examples: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokenizers", TokenizerPair.of(self.tokenizers))
        if isinstance(self.examples, str):
            raise UserError(f"`examples` must be a list of texts; got {self.examples!r}.")
        config = self.model.config
        source, target = self.tokenizers.source, self.tokenizers.target
        source.require_vocabulary_size(config.vocabulary_size, "The model's embedding")
        target_size = getattr(config, "target_vocabulary_size", None) or config.vocabulary_size
        target.require_vocabulary_size(target_size, "The model's target embedding")
        if self.model.special_ids != self.tokenizers.special_ids:
            raise UserError(
                f"The model has the special ids {self.model.special_ids}, but its tokenizer has "
                f"{self.tokenizers.special_ids}.",
                fix="Use the tokenizer that the model was trained with, or set the ids of the "
                "model.",
            )

    def search_settings(self, **settings: Any) -> SearchSettings:
        """Returns the `SearchSettings` of the recipe, or the defaults, with changes.

        Args:
            **settings: fields of `SearchSettings` that replace those of the recipe.
        """
        evaluation = (self.recipe or {}).get("evaluation") or {}
        of_recipe = dict(evaluation.get("search") or {})
        of_recipe["forbidden_ids"] = tuple(of_recipe.get("forbidden_ids", ()))
        try:
            return SearchSettings(**{**of_recipe, **settings})
        except UserError as error:
            SearchSettings(**settings)  # reports a mistake in the given settings themselves
            raise error.at("search of the recipe") from error

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes the subdirectory `model` of a directory atomically."""
        with atomic_directory(pathlib.Path(directory) / MODEL_DIRECTORY) as temporary:
            weights = temporary / WEIGHTS
            optimizer, self.model.optimizer = getattr(self.model, "optimizer", None), None
            try:  # Keras would store the slot variables of the optimizer, too
                self.model.save_weights(weights)
            finally:
                self.model.optimizer = optimizer
            self.tokenizers.save(temporary / TOKENIZERS)
            description = {
                "format": FORMAT,
                "created_with": {"keras_transformer": __version__, "keras": keras.__version__},
                "class": type(self.model).__name__,
                "config": self.model.get_config(),
                # The manifest has it, too; earlier versions of the package read it here.
                "weights_sha256": sha256_of(temporary, WEIGHTS)[0],
                "recipe": self.recipe,
                "quality": self.quality,
                "examples": list(self.examples),
                "labels": list(self.labels),
            }
            content = json.dumps(description, ensure_ascii=False, indent=1, allow_nan=False)
            (temporary / DESCRIPTION).write_text(content, encoding="utf-8")
            RunManifest.new(temporary).add_all()

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
    ) -> Self:
        """Returns the model that `save` wrote.

        Only numbers and texts are read from the files, never code. All files of the model must be
        those of its manifest.

        Args:
            directory: a run directory, or the `model` directory inside it.
            key: file with public keys, one of which must have signed the model. Default None, any.
        """
        directory = model_directory(directory)
        check_trained_model(directory, key)
        description = read_description(directory)
        model = _build_model(directory, description)
        load_weights(model, directory)
        tokenizers = TokenizerPair.load(directory / TOKENIZERS)
        recipe, quality = description["recipe"], description["quality"]
        examples, labels = tuple(description["examples"]), tuple(description["labels"])
        try:
            return cls(model, tokenizers, recipe, quality, examples, labels)
        except UserError as error:
            raise error.at(directory) from error


def is_trained_model(directory: str | os.PathLike[str]) -> bool:
    """Returns whether a directory, or its subdirectory `model`, holds a trained model."""
    return any(pathlib.Path(directory, place, DESCRIPTION).is_file() for place in _PLACES)


def model_directory(directory: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the directory of a trained model: the given one, or its subdirectory `model`."""
    directory = pathlib.Path(directory)
    return directory if (directory / DESCRIPTION).is_file() else directory / MODEL_DIRECTORY


def check_trained_model(
    directory: pathlib.Path, key: str | os.PathLike[str] | None = None
) -> RunManifest:
    """Returns the manifest of a trained model whose files are as they were written.

    Args:
        directory: the directory with the model's description, from `model_directory`.
        key: file with public keys, one of which must have signed the model. Default None, any.
    """
    if not os.path.lexists(directory / RUN_MANIFEST) and not os.path.lexists(
        directory / DESCRIPTION
    ):
        read_description(directory)  # reports that there is no model
    manifest = RunManifest.read(directory, key)
    manifest.check()
    manifest.check_no_others()
    if DESCRIPTION not in manifest or WEIGHTS not in manifest:
        problem = f"does not list {DESCRIPTION} and {WEIGHTS}."
        raise UserError(problem, where=directory / RUN_MANIFEST, fix=_COPY_AGAIN)
    return manifest


def seal_trained_model(directory: pathlib.Path) -> None:
    """Writes the manifest of a trained model that an earlier version of the package wrote.

    Args:
        directory: the directory with the model's description, from `model_directory`.
    """
    description = read_description(directory)
    if sha256_of(directory, WEIGHTS)[0] != description["weights_sha256"]:
        problem = "damaged: the file has changed since it was written."
        raise UserError(problem, where=directory / WEIGHTS, fix=_COPY_AGAIN)
    RunManifest.new(directory).add_all()


def read_description(directory: pathlib.Path) -> dict[str, Any]:
    """Returns the checked description of a trained model: class, config and others.

    Args:
        directory: the directory with the description, from `model_directory`.
    """
    path = directory / DESCRIPTION
    try:
        description = parse_json(path.read_bytes())
        format_number = description["format"]
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = f"no trained model here: {DESCRIPTION} is missing."
        raise UserError(problem, where=directory, fix="Give the directory of a run.") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError("damaged.", where=path, fix=_COPY_AGAIN) from error
    if format_number != FORMAT:
        writer, fix = _writer_of(description)
        reads = f"keras_transformer {__version__} reads format {FORMAT}"
        problem = f"{writer} wrote this model in format {format_number}; {reads}."
        raise UserError(problem, where=path, fix=fix)
    for key, kind in _TYPES.items():
        if key not in description or not isinstance(description[key], kind):
            raise UserError(f"damaged: {key!r} is missing or wrong.", where=path, fix=_COPY_AGAIN)
    for key in ("examples", "labels"):
        if not all(isinstance(each, str) for each in description[key]):
            raise UserError(f"damaged: {key!r} are not texts.", where=path, fix=_COPY_AGAIN)
    return description


def _build_model(directory: pathlib.Path, description: dict[str, Any]) -> keras.Model:
    name = description["class"]
    if name not in MODELS:
        raise UserError(
            f"unknown model class {name!r}; known are {', '.join(sorted(MODELS))}.",
            where=directory,
            fix="Import the module that defines it first, or use the version that made it.",
        )
    try:
        return MODELS[name].from_config(description["config"])
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        writer, fix = _writer_of(description)
        reads = f"keras_transformer {__version__} cannot build this model"
        problem = f"{reads}, which {writer} wrote: {error}"
        raise UserError(problem, where=directory / DESCRIPTION, fix=fix) from error


def _writer_of(description: dict[str, Any]) -> tuple[str, str]:
    """Returns the package and version that wrote a description, and what the user can do."""
    versions = description.get("created_with")
    version = versions.get("keras_transformer") if isinstance(versions, dict) else None
    writer = f"keras_transformer {version or '(unknown version)'}"
    return writer, f"Use {writer}, or train the model again with this version."


def load_weights(model: keras.Model, directory: pathlib.Path) -> None:
    """Sets the weights of a model to those of a trained model with the same config.

    Args:
        model: the model.
        directory: the directory with the weights, from `model_directory`.
    """
    path = directory / WEIGHTS
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        raise UserError(f"the weights do not fit the model: {error}", where=path) from error
