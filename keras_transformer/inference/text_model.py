"""Text models: a run or an export, as one object from strings to strings."""

# TensorFlow's types make a tensor of strings look compatible with a string.
# pyright: reportOverlappingOverload=false

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, overload

import numpy as np
import tensorflow as tf

from keras_transformer._utils.checks import require_choice
from keras_transformer._utils.errors import ArgumentError, UserError
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
from keras_transformer.inference.attention_maps import Alignment, align
from keras_transformer.inference.translation import (
    WINDOW,
    Score,
    Translation,
    as_tensor,
    as_text,
    call_signature,
    score_pairs,
    translate_lines,
)
from keras_transformer.models import MODELS

#: Several strings: a list, a tuple, an iterator, a NumPy array or a string tensor.
Many = list[str] | list[bytes] | tuple[str | bytes, ...] | Iterator[str] | np.ndarray | tf.Tensor
#: A string, or several.
Texts = str | bytes | Many
#: A signature: from named tensors to named tensors.
SignatureFunction = Callable[..., Mapping[str, tf.Tensor]]

_METHODS = ("translate", "generate", "n_best", "score", "attention", "embed", "classify")
# The signatures that methods of another name call.
_SIGNATURES = {"translate": "serving_default", "generate": "serving_default", "embed": "encode"}


@dataclasses.dataclass(frozen=True, eq=False)
class Classification:
    """The class of a text.

    Attributes:
        label: name of the most probable class.
        probabilities: probability of each class, float32 `[C]`.
    """

    label: str
    probabilities: np.ndarray


class TextModel:
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
        #: True if the model continues texts and has no source.
        self.is_language_model: bool = text_module_class(MODELS[kind]) is ContinuationModule
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
    def offers(self) -> tuple[str, ...]:
        """Names of the methods that the model can answer."""
        offered = [name for name in _METHODS if _SIGNATURES.get(name, name) in self.signatures]
        # Only a model that writes text and has a source translates; encoders have a
        # `serving_default` as well.
        missing = set()
        if self.is_language_model:
            missing = {"translate"}
        elif not issubclass(text_module_class(MODELS[self.kind]), GenerationModule):
            missing = {"translate", "generate"}
        return tuple(name for name in offered if name not in missing)

    def require(self, method: str) -> None:
        """Raises a `UserError` unless the model offers a method."""
        if method not in self.offers:
            raise UserError(
                f"a {self.kind} does not offer `{method}`; it offers {', '.join(self.offers)}.",
                where=self.name,
            )

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
            raise UserError(
                f"the search of an export is part of its graph, so {', '.join(given)} cannot be "
                "set.",
                where=self.name,
                fix="Export the run again with these settings, or load the run directory.",
            )
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

    @overload
    def translate(
        self, texts: str | bytes, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> str: ...

    @overload
    def translate(
        self, texts: Many, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> list[str]: ...

    def translate(
        self, texts: Texts, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> str | list[str]:
        """Returns the best translation of each text: a string, or a list of strings.

        Args:
            texts: the source texts.
            temperature: samples at this temperature instead of searching. Default None.
            seed: seed of the samples. Default 0.
            **search: see `with_search`; for runs only. Settings that only sampling has, such as
                `top_p`, need a temperature, and those that it does not have must be left out.
        """
        self.require("translate")
        return self.generate(texts, temperature=temperature, seed=seed, **search)

    @overload
    def generate(
        self, texts: str | bytes, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> str: ...

    @overload
    def generate(
        self, texts: Many, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> list[str]: ...

    def generate(
        self, texts: Texts, *, temperature: float | None = None, seed: int = 0, **search: Any
    ) -> str | list[str]:
        """Returns the best translation of each text, or continuation, which begins with the text.

        Args:
            texts: source texts, or prompts of a language model.
            temperature, seed, **search: see `translate`.
        """
        self.require("generate")
        model = self.with_search(**search)
        self.require_used(search, temperature)

        def write(lines: list[str]) -> list[str]:
            found = translate_lines(model, lines, temperature=temperature, seed=seed)
            return [translation.text for translation in found]

        return _mapped(texts, write)

    @overload
    def n_best(self, texts: str | bytes, count: int, **search: Any) -> Translation: ...

    @overload
    def n_best(self, texts: Many, count: int, **search: Any) -> list[Translation]: ...

    def n_best(self, texts: Texts, count: int, **search: Any) -> Translation | list[Translation]:
        """Returns a `Translation` for each text, with its best texts and their scores.

        Args:
            texts: source texts, or prompts of a language model.
            count: maximum number of different texts, at most the number of beams.
            **search: see `translate`.
        """
        self.require("n_best")
        model = self.with_search(**search)
        self.require_used(search)
        return _mapped(texts, lambda lines: list(translate_lines(model, lines, count)))

    @overload
    def score(self, sources: str | bytes, targets: Texts | None = None) -> Score: ...

    @overload
    def score(self, sources: Many, targets: Texts | None = None) -> list[Score]: ...

    def score(self, sources: Texts, targets: Texts | None = None) -> Score | list[Score]:
        """Returns the `Score` of each target: log-probability, tokens and perplexity.

        Args:
            sources: source texts, or prompts of a language model.
            targets: as many target texts. A language model without targets scores the sources.
        """
        self.require("score")
        return self._paired(sources, targets, lambda *pairs: list(score_pairs(self, *pairs)))

    @overload
    def attention(self, sources: str | bytes, targets: Texts | None = None) -> Alignment: ...

    @overload
    def attention(self, sources: Many, targets: Texts | None = None) -> list[Alignment]: ...

    def attention(
        self, sources: Texts, targets: Texts | None = None
    ) -> Alignment | list[Alignment]:
        """Returns the `Alignment` of each pair: tokens and attention scores between them.

        Args:
            sources: source texts, or prompts of a language model.
            targets: as many target texts. Default: the model's translations; of a language model,
                the sources themselves.
        """
        self.require("attention")
        if targets is None and not self.is_language_model:
            if isinstance(sources, Iterator):
                sources = list(sources)
            targets = self.translate(sources)
        return self._paired(sources, targets, functools.partial(align, self))

    def embed(self, texts: Texts) -> np.ndarray:
        """Returns a vector for each text, float32 `[M]` or `[B, M]`.

        Args:
            texts: the texts.
        """
        self.require("embed")

        def embed(lines: list[str]) -> np.ndarray:
            found = self._answers("encode", lines)
            return np.concatenate([each["embedding"] for each in found])

        return _mapped(texts, embed)

    @overload
    def classify(self, texts: str | bytes) -> Classification: ...

    @overload
    def classify(self, texts: Many) -> list[Classification]: ...

    def classify(self, texts: Texts) -> Classification | list[Classification]:
        """Returns the `Classification` of each text: label and probabilities.

        Args:
            texts: the texts.
        """
        self.require("classify")

        def classify(lines: list[str]) -> list[Classification]:
            return [
                Classification(as_text(label), probabilities)
                for found in self._answers("classify", lines)
                for label, probabilities in zip(found["label"], found["probabilities"], strict=True)
            ]

        return _mapped(texts, classify)

    def __repr__(self) -> str:
        return f"<TextModel {self.name}: {self.kind}, offers {', '.join(self.offers)}>"

    def _answers(self, signature: str, lines: list[str]) -> Iterator[dict[str, np.ndarray]]:
        """Yields the answers to parts of at most `WINDOW` lines; one, of 0 rows, to no lines."""
        for start in range(0, max(1, len(lines)), WINDOW):
            part = lines[start : start + WINDOW]
            yield call_signature(self, signature, len(part), text=as_tensor(part))

    def _paired(
        self,
        sources: Texts,
        targets: Texts | None,
        function: Callable[[list[str], list[str]], list[Any]],
    ) -> Any:
        """Applies a function to sources and targets; returns a single result for a single one."""
        if targets is None and not self.is_language_model:
            raise UserError(f"a {self.kind} needs `targets` beside the sources.", where=self.name)

        def call(lines: list[str]) -> list[Any]:
            if targets is None:
                return function([""] * len(lines), lines)
            target_lines, _ = _as_lines("targets", targets)
            if len(lines) != len(target_lines):
                raise UserError(
                    f"There must be as many targets as sources; got {len(lines):,} sources and "
                    f"{len(target_lines):,} targets."
                )
            return function(lines, target_lines)

        return _mapped(sources, call, "sources")


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


def _mapped(texts: Texts, function: Callable[[list[str]], Any], name: str = "texts") -> Any:
    """Applies a function of lists of strings; returns a single result for a single string."""
    lines, is_single = _as_lines(name, texts)
    results = function(lines)
    return results[0] if is_single else results


def _as_lines(name: str, texts: Texts) -> tuple[list[str], bool]:
    """Returns texts as a list of strings, and whether a single string was given."""
    values: Any = texts
    if tf.is_tensor(values):
        values = values.numpy()
    if isinstance(values, np.ndarray | np.generic):
        values = values.tolist()
    if isinstance(values, str | bytes):
        return [_as_string(name, values)], True
    if not isinstance(values, Iterable):
        raise ArgumentError(name, "a string or a list of strings", texts)
    return [_as_string(name, value) for value in values], False


def _as_string(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return as_text(value)
    if not isinstance(value, str):
        raise ArgumentError(name, "a string or a list of strings", value)
    return value
