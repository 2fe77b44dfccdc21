"""Text models: a run or an export, as one object from strings to strings."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import UserError
from keras_transformer.decoding import Search, SearchSettings
from keras_transformer.export.damage import no_tensorflow_text
from keras_transformer.export.modules import (
    ContinuationModule,
    GenerationModule,
    make_text_module,
    reads_trees,
    text_module_class,
)
from keras_transformer.export.trained_model import RUN_RECIPE, TrainedModel, is_trained_model
from keras_transformer.export.verification import checked_copy
from keras_transformer.export.versions import resolve_version
from keras_transformer.inference.text_methods import TextMethods
from keras_transformer.inference.translation import Inputs
from keras_transformer.models import MODELS

#: A signature: from named tensors to named tensors.
SignatureFunction = Callable[..., Mapping[str, tf.Tensor]]


class TextModel(TextMethods):
    """A model that takes strings, opened by `keras_transformer.load`.

    Each method takes a string, or a list, a NumPy array or a tensor of strings. For a single string
    it returns a single result, otherwise a list (or array) of results.

    Args:
        kind: name of the model's class, such as "Transformer".
        name: name of the model in messages.
        signatures: functions from named tensors to named tensors, by the name of the signature.
        reads_trees: whether source texts are CoNLL-U. Default False.
        recipe: recipe of the training. Default None.
        trained: the `TrainedModel` of a run, with which the search can be changed. Default None.

    Example:

    ```python
    model = keras_transformer.load("runs/dates")
    model.translate("7 mars 2025")  # '2025-03-07'
    model.translate(["7 mars 2025", "12. Mai 2021"], beams=8)
    ```
    """

    def __init__(
        self,
        kind: str,
        name: str,
        signatures: Mapping[str, SignatureFunction],
        reads_trees: bool = False,
        recipe: dict[str, Any] | None = None,
        trained: TrainedModel | None = None,
    ) -> None:
        self.kind = kind
        self.name: str = name
        self.signatures: dict[str, SignatureFunction] = dict(signatures)
        self.reads_trees = reads_trees
        self.recipe = recipe
        self.trained = trained
        module = text_module_class(MODELS[kind])
        self.is_language_model: bool = module is ContinuationModule
        self.writes_text: bool = issubclass(module, GenerationModule)
        self._searches: dict[SearchSettings, TextModel] = {}

    @classmethod
    def of(
        cls,
        trained: TrainedModel,
        search: Search | SearchSettings | None = None,
        name: str | None = None,
    ) -> Self:
        """Returns the text model of a `TrainedModel`; it reads the model's present weights.

        Args:
            trained: the `TrainedModel`.
            search: a deterministic `Search` or `SearchSettings`. Default: the search of the recipe.
            name: name of the model in messages. Default: the name of the Keras model.

        >>> from keras_transformer import Transformer
        >>> from keras_transformer.text import ByteTokenizer
        >>> model = Transformer.from_size("tiny", vocabulary_size=260)
        >>> TextModel.of(TrainedModel(model, ByteTokenizer())).offers
        ('translate', 'generate', 'n_best', 'score', 'attention', 'embed'...)
        """
        return cls(
            type(trained.model).__name__,
            name or trained.model.name,
            make_text_module(trained, search).functions,
            reads_trees=reads_trees(trained.model.config),
            recipe=trained.recipe,
            trained=trained,
        )

    @property
    def signature_names(self) -> Collection[str]:
        return self.signatures

    def compute(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        tensors = {name: _as_tensor(value) for name, value in inputs.items()}
        return {key: each.numpy() for key, each in self.signatures[signature](**tensors).items()}

    def with_search(self, **settings: Any) -> "TextModel":
        """Returns the model with another search, which is traced once for the same settings.

        Args:
            **settings: fields of `SearchSettings`, such as `beams`. Default: those of the recipe.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        if not given:
            return self
        fields = [field.name for field in dataclasses.fields(SearchSettings)]
        for name in given:
            require_choice("search setting", name, fields)
        if self.trained is None:
            return super().with_search(**given)
        search = self.trained.search_settings(**given)
        if search not in self._searches:
            self._searches[search] = self.of(self.trained, search, self.name)
            if len(self._searches) > 8:
                del self._searches[next(iter(self._searches))]
        return self._searches[search]

    def require_used(self, settings: Mapping[str, Any], temperature: float | None = None) -> None:
        """Raises an `ArgumentError` for a search setting that calls would not read.

        Args:
            settings: fields of `SearchSettings`, such as `top_p`, which only samples read.
            temperature: the temperature of the calls, None for the search. Default None.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        if given and self.trained is not None:
            search = self.trained.search_settings(**given)
            search.require_used(given, is_sampling=temperature is not None)


def load(path: str | os.PathLike[str], key: str | os.PathLike[str] | None = None) -> TextModel:
    """Opens a run directory or an export as a `TextModel`, from strings to strings.

    Before anything of an export runs, the checksums of its files and the operations in its graph
    are checked, in a private copy, which is then loaded.

    Args:
        path: a run directory, a version directory of an export, or the directory of all versions.
        key: a PEM file with Ed25519 public keys; a model that none of them has signed is refused.
            Default None, no signature is needed.

    Example:

    ```python
    keras_transformer.load("runs/dates").translate(["7 mars 2025"])  # ['2025-03-07']
    ```
    """
    if is_trained_model(path):
        return TextModel.of(TrainedModel.load(path, key), name=os.fspath(path))
    try:
        directory = resolve_version(path)
    except UserError as error:
        if not pathlib.Path(path, RUN_RECIPE).is_file():
            raise
        fix = "Resume it with the `keras-transformer train` command that started it."
        raise UserError("this run is not finished.", where=path, fix=fix) from error
    with checked_copy(directory, key=key) as checked:
        manifest = checked.verification.manifest
        if manifest["ops"]["outside_core"]:
            try:
                import tensorflow_text  # noqa: F401  (its import registers its operations)
            except ImportError as error:
                raise no_tensorflow_text(directory, error) from error
        loaded = tf.saved_model.load(str(checked.directory))
    # The contents of these two entries are not checked.
    described = (manifest["model"], manifest["recipe"])
    model, recipe = (value if isinstance(value, dict) else {} for value in described)
    return TextModel(
        manifest["kind"],
        os.fspath(path),
        {name: functools.partial(_call, loaded, each) for name, each in loaded.signatures.items()},
        reads_trees=model.get("tree_positions", "none") != "none",
        recipe=recipe or None,
    )


def _call(
    owner: Any, function: SignatureFunction, /, **tensors: tf.Tensor
) -> Mapping[str, tf.Tensor]:
    """Calls a signature whose SavedModel, the owner, must live as long as it is used."""
    return function(**tensors)


def _as_tensor(value: list[bytes] | int | float) -> tf.Tensor:
    if isinstance(value, list):
        return tf.constant(value, tf.string, [len(value)])
    return tf.constant(value, tf.int32 if isinstance(value, int) else tf.float32)
