"""A trained model on disk, before it is exported."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib

import keras

from keras_transformer import __version__
from keras_transformer._utils.errors import UserError
from keras_transformer._utils.files import atomic_directory
from keras_transformer.decoding import SearchSettings
from keras_transformer.models import MODELS
from keras_transformer.text import Tokenizer, TokenizerPair

#: The directory inside a run's that holds its trained model.
MODEL_DIRECTORY = "model"
#: The file inside a run's directory that says how it is trained.
RUN_RECIPE = "recipe.yaml"
DESCRIPTION, WEIGHTS, TOKENIZERS = "model.json", "model.weights.h5", "tokenizers"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model, the tokenizers it was trained with, and what is known about it.

    Attributes:
        model: a `Transformer` or another model of this package.
        tokenizers: a `TokenizerPair`, or a `Tokenizer` for both sides; of a model without a source
            both are the same.
        recipe: how it was trained, a dictionary for JSON, or None.
        quality: what was measured, such as `{"bleu": 41.2}`, or None.
        examples: source texts on which an export is tried.
        labels: the names of a classifier's classes.

    >>> import tempfile
    >>> from keras_transformer import Transformer
    >>> from keras_transformer.text import ByteTokenizer
    >>> model = Transformer.from_preset("tiny", vocabulary_size=260)
    >>> directory = tempfile.mkdtemp() + "/run"
    >>> TrainedModel(model, TokenizerPair(ByteTokenizer())).save(directory)
    >>> TrainedModel.load(directory).model.count_params() == model.count_params()
    True
    """

    model: keras.Model
    tokenizers: TokenizerPair
    recipe: dict | None = None
    quality: dict | None = None
    examples: tuple = ()
    labels: tuple = ()

    def search_settings(self, **given):
        """The `SearchSettings` of its recipe, or the defaults; fields that are given hold first."""
        evaluation = (self.recipe or {}).get("evaluation") or {}
        of_recipe = dict(evaluation.get("search") or {})
        of_recipe["forbidden_ids"] = tuple(of_recipe.get("forbidden_ids", ()))
        return SearchSettings(**{**of_recipe, **given})

    def __post_init__(self):
        if isinstance(self.tokenizers, Tokenizer):
            object.__setattr__(self, "tokenizers", TokenizerPair(self.tokenizers))
        if isinstance(self.examples, str):
            raise ValueError(f"`examples` must be several texts; got {self.examples!r}.")
        config = self.model.config
        self.tokenizers.source.require_vocabulary_size(
            config.vocabulary_size, "The model's embedding"
        )
        target_size = getattr(config, "target_vocabulary_size", None) or config.vocabulary_size
        self.tokenizers.target.require_vocabulary_size(target_size, "The model's target embedding")

    def save(self, directory):
        """Writes the directory `model` into `directory`, whole or not at all."""
        with atomic_directory(pathlib.Path(directory) / MODEL_DIRECTORY) as temporary:
            weights = temporary / WEIGHTS
            with _without_optimizer(self.model):
                self.model.save_weights(weights)
            self.tokenizers.save(temporary / TOKENIZERS)
            description = {
                "format": FORMAT,
                "created_with": {"keras_transformer": __version__, "keras": keras.__version__},
                "class": type(self.model).__name__,
                "config": self.model.get_config(),
                "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
                "recipe": self.recipe,
                "quality": self.quality,
                "examples": list(self.examples),
                "labels": list(self.labels),
            }
            content = json.dumps(description, ensure_ascii=False, indent=1, allow_nan=False)
            (temporary / DESCRIPTION).write_text(content, encoding="utf-8")

    @classmethod
    def load(cls, directory):
        """Returns what `save` wrote into `directory` (or into the `model` directory itself).

        The model is made anew from its configuration; of the files, only numbers and texts are
        read, never code.
        """
        directory = pathlib.Path(directory)
        if not (directory / DESCRIPTION).is_file():
            directory = directory / MODEL_DIRECTORY
        description = _read_description(directory)
        model = _make_model(directory, description)
        _load_weights(model, directory, description)
        tokenizers = TokenizerPair.load(directory / TOKENIZERS)
        try:
            return cls(
                model,
                tokenizers,
                description["recipe"],
                description["quality"],
                tuple(description["examples"]),
                tuple(description["labels"]),
            )
        except UserError as error:
            raise UserError(f"{directory}: {error}") from error


@contextlib.contextmanager
def _without_optimizer(model):
    """Inside, a compiled model has none: Keras would store its moments, twice the weights."""
    optimizer = getattr(model, "optimizer", None)
    try:
        model.optimizer = None
        yield
    finally:
        model.optimizer = optimizer


def is_trained_model(directory):
    """Whether there is a trained model in a directory, or in its `model` directory."""
    directory = pathlib.Path(directory)
    return any(
        (place / DESCRIPTION).is_file() for place in (directory, directory / MODEL_DIRECTORY)
    )


def _read_description(directory):
    path = directory / DESCRIPTION
    try:
        description = json.loads(path.read_bytes())
        format_number = description["format"]
        missing = {"class", "config", "weights_sha256", "recipe", "quality", "examples", "labels"}
        missing -= set(description)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{directory}: holds no trained model, {DESCRIPTION} is not there. Give the directory "
            "of a run."
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: damaged. Copy or train the model again.") from error
    if format_number != FORMAT:
        made_with = description.get("created_with")
        raise UserError(
            f"{path}: has format {format_number}, made with {made_with}; keras_transformer "
            f"{__version__} reads format {FORMAT}. Use the version that made it."
        )
    if missing:
        raise UserError(f"{path}: damaged, {sorted(missing)} not there. Copy the model again.")
    return description


def _make_model(directory, description):
    name = description["class"]
    if name not in MODELS:
        raise UserError(
            f"{directory}: there is no model class {name!r}; known are {', '.join(sorted(MODELS))}."
            " Import the module that defines it first, or use the version that made it."
        )
    try:
        return MODELS[name].from_config(description["config"])
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{directory / DESCRIPTION}: keras_transformer {__version__} cannot make this model: "
            f"{error}"
        ) from error


def _load_weights(model, directory, description):
    path = directory / WEIGHTS
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError as error:
        raise UserError(f"damaged: {path} is not there. Copy the model again.") from error
    if digest != description["weights_sha256"]:
        raise UserError(f"damaged: {path} is not as it was written. Copy the model again.")
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        raise UserError(f"{path}: the weights do not fit the model: {error}") from error
