"""Text modules: models with their tokenizers as graph functions of strings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Search, SearchSettings
from keras_transformer.export.modules.base import TextLimits, TextModule, is_blank, stored_weights
from keras_transformer.export.modules.continuation import ContinuationModule
from keras_transformer.export.modules.encoding import EncodingModule
from keras_transformer.export.modules.generation import GenerationModule
from keras_transformer.export.modules.translation import (
    TranslationModule,
    TreeTranslationModule,
    parse_conllu,
    reads_trees,
    tree_inputs,
)
from keras_transformer.export.signatures import Signature, declared_signatures
from keras_transformer.export.trained_model import TrainedModel
from keras_transformer.models import MODELS

__all__ = [
    "ContinuationModule",
    "EncodingModule",
    "GenerationModule",
    "TextLimits",
    "TextModule",
    "TranslationModule",
    "TreeTranslationModule",
    "is_blank",
    "make_text_module",
    "parse_conllu",
    "reads_trees",
    "signatures_of_export",
    "signatures_of_kind",
    "stored_weights",
    "text_module_class",
    "tree_inputs",
]


def make_text_module(
    trained: TrainedModel,
    search: Search | SearchSettings | None = None,
    limits: TextLimits | None = None,
    xla: bool = False,
    stored_dtype: str | None = None,
) -> TextModule:
    """Returns the `TextModule` of a trained model.

    Args:
        trained: a `TrainedModel`.
        search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
        limits: a `TextLimits`. Default: what the model is made for.
        xla: whether XLA compiles the searches. Default False.
        stored_dtype: dtype of the stored weights; None to run on the model's own variables.
    """
    if hasattr(trained.model, "unpacked"):
        trained = dataclasses.replace(trained, model=trained.model.unpacked())
    model = trained.model
    module_class: Any = text_module_class(type(model))
    if module_class is EncodingModule:
        if search is not None or xla:
            raise UserError(f"A {type(model).__name__} writes no text: there is nothing to search.")
        return EncodingModule(trained, limits, stored_dtype)
    if reads_trees(model.config):
        module_class = TreeTranslationModule
    return module_class(trained, search, limits, xla, stored_dtype)


def text_module_class(model_class: type[keras.Model]) -> type[TextModule]:
    """Returns the class of text modules for a class of models."""
    if not hasattr(model_class, "step"):
        return EncodingModule
    return TranslationModule if hasattr(model_class, "encode") else ContinuationModule


def signatures_of_kind(kind: str) -> tuple[Signature, ...]:
    """Returns the signatures that an export of a kind of model declares.

    Args:
        kind: the name of a model class, a key of `MODELS`.
    """
    return declared_signatures(text_module_class(MODELS[kind]))


def signatures_of_export(manifest: Mapping[str, Any]) -> tuple[Signature, ...]:
    """Returns the signatures that an export must have by its manifest, if its kind declares them.

    Args:
        manifest: from `read_manifest`. An export of chosen signatures names them in "signatures".
    """
    records, chosen = signatures_of_kind(manifest["kind"]), manifest.get("signatures")
    return tuple(each for each in records if chosen is None or each.name in chosen)
