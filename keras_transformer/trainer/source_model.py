"""The trained model that a recipe starts from, and which weights are frozen."""

import dataclasses
import fnmatch
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.export.trained_model import (
    TOKENIZERS,
    check_trained_model,
    is_trained_model,
    load_weights,
    model_directory,
    read_description,
)
from keras_transformer.models import MODELS
from keras_transformer.text import TokenizerPair

#: Settings that may differ from those of the model that a recipe starts from.
CHANGEABLE = ("dropout", "attention_dropout", "activation_dropout")
#: Keys of the section `text` that follow from the vocabulary of that model.
VOCABULARY_KEYS = ("tokenizer", "vocabulary_size", "shared")


@dataclasses.dataclass(frozen=True)
class SourceModel:
    """A trained model that another training starts from.

    Attributes:
        directory: Its run directory.
        config: The config of the model, by field.
        config_class: Class of the config.
        tokenizers: Its `TokenizerPair`.
        search: The settings of its search, by field of `SearchSettings`.
    """

    directory: pathlib.Path
    config: Mapping[str, Any]
    config_class: type[Any]
    tokenizers: TokenizerPair
    search: Mapping[str, Any]

    @classmethod
    def read(cls, directory: str) -> "SourceModel":
        """Returns the model of a run directory; weights are not read.

        Args:
            directory: The run directory: of a finished training, or of an imported model.
        """
        path = pathlib.Path(directory)
        if not is_trained_model(path):
            if (path / "config.json").is_file():
                problem = "a checkpoint of Hugging Face, which must be imported first."
                fix = f"Run keras-transformer import {directory} --to runs/NAME, and use runs/NAME."
            else:
                problem = "no trained model here."
                fix = "Give the run directory of a finished training or of an imported model."
            raise UserError(problem, where=directory, argument="from", fix=fix)
        place = model_directory(path)
        check_trained_model(place)
        description = read_description(place)
        kind = MODELS.get(description["class"])
        if kind is None:
            problem = f"unknown model class {description['class']!r}."
            raise UserError(problem, where=directory, argument="from")
        evaluation = (description["recipe"] or {}).get("evaluation") or {}
        return cls(
            path,
            description["config"],
            kind.config_class,
            TokenizerPair.load(place / TOKENIZERS),
            dict(evaluation.get("search") or {}),
        )

    @property
    def vocabulary(self) -> dict[str, Any]:
        """The values of `VOCABULARY_KEYS` in the section `text` of a recipe."""
        return {
            "tokenizer": self.tokenizers.source.registered_name,
            "vocabulary_size": self.tokenizers.source.vocabulary_size,
            "shared": self.tokenizers.is_shared,
        }

    def settings(self, names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a model that starts from this one.

        Args:
            names: The fields to return.
            given: Values that the recipe gives; only those in `CHANGEABLE` may differ.
        """
        settings = {name: self.config[name] for name in names if name in self.config}
        for name, value in given.items():
            if name in CHANGEABLE and name in settings:
                settings[name] = value
            elif name not in settings or settings[name] != value:
                raise ArgumentError(
                    name,
                    f"left out with `model.from`, whose model has {settings.get(name)!r}",
                    value,
                    related=("from",),
                    fix=f"Only {', '.join(CHANGEABLE)} and `freeze` can be set.",
                )
        return settings


def assign_source_weights(model: keras.Model, directory: str) -> None:
    """Sets the weights of a model to those of the trained model in a run directory."""
    place = model_directory(directory)
    check_trained_model(place)
    load_weights(model, place)


def freeze_weights(model: keras.Model, patterns: Iterable[str]) -> None:
    """Makes weights untrainable whose path matches one of the patterns.

    Args:
        model: The model.
        patterns: Patterns of paths, such as `encoder/*` or `*/self_attention/*`; a name without
            wildcards, such as `encoder`, is everything below it. Each must match something.
    """
    paths = {weight.path: weight for weight in model.trainable_weights}
    frozen: set[str] = set()
    for pattern in patterns:
        wildcard = pattern if any(sign in pattern for sign in "*?[") else f"{pattern}/*"
        found = fnmatch.filter(paths, wildcard)
        if not found and pattern not in paths:
            beginnings = sorted({"/".join(path.split("/")[:2]) for path in paths})
            raise ArgumentError(
                "freeze",
                "patterns that match weights of the model",
                pattern,
                fix=f"Its weights are below {', '.join(beginnings)}.",
            )
        frozen |= {*found, *({pattern} & paths.keys())}
    if frozen == paths.keys():
        expected = "patterns that leave some weights to train"
        raise ArgumentError("freeze", expected, list(patterns))
    for path in frozen:
        paths[path].trainable = False
