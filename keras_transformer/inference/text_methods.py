"""Methods from strings to strings, in terms of the signatures of a model.

Nothing here imports TensorFlow, so that clients of a server start without it.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol, Self, overload

import numpy as np

from keras_transformer._utils.errors import ArgumentError, UserError
from keras_transformer.inference.attention_maps import Alignment, align
from keras_transformer.inference.translation import (
    WINDOW,
    Inputs,
    Score,
    Translation,
    as_text,
    call_signature,
    score_pairs,
    translate_lines,
)


class StringTensor(Protocol):
    """A tensor of strings, of TensorFlow or of another library."""

    def numpy(self) -> Any:
        """Returns the NumPy array of the same content."""


#: Several strings: a list, a tuple, an iterator, a NumPy array or a string tensor.
Many = list[str] | list[bytes] | tuple[str | bytes, ...] | Iterator[str] | np.ndarray | StringTensor
#: A string, or several.
Texts = str | bytes | Many

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


class TextMethods(abc.ABC):
    """The methods that a `TextModel` and a `keras_transformer.serving.Client` have in common.

    Each method takes a string, or a list, a NumPy array or a tensor of strings. For a single string
    it returns a single result, otherwise a list (or array) of results.

    A subclass has the attributes and implements `compute` and `signature_names`.

    Attributes:
        kind: name of the model's class, such as "Transformer".
        name: name of the model in messages.
        is_language_model: whether the model continues texts and has no source.
        writes_text: whether the model writes text.
    """

    kind: str
    name: str
    is_language_model: bool
    writes_text: bool

    @property
    @abc.abstractmethod
    def signature_names(self) -> Collection[str]:
        """Names of the signatures of the model."""

    @abc.abstractmethod
    def compute(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature by name, texts as bytes.

        Args:
            signature: name of the signature.
            inputs: its inputs by name: UTF-8 texts, or a number.
        """

    @property
    def offers(self) -> tuple[str, ...]:
        """Names of the methods that the model can answer."""
        names = self.signature_names
        offered = [name for name in _METHODS if _SIGNATURES.get(name, name) in names]
        # Only a model that writes text and has a source translates; encoders have a
        # `serving_default` as well.
        missing = set()
        if self.is_language_model:
            missing = {"translate"}
        elif not self.writes_text:
            missing = {"translate", "generate"}
        return tuple(name for name in offered if name not in missing)

    def require(self, method: str) -> None:
        """Raises a `UserError` unless the model offers a method."""
        if method not in self.offers:
            raise UserError(
                f"a {self.kind} does not offer `{method}`; it offers {', '.join(self.offers)}.",
                where=self.name,
            )

    def with_search(self, **settings: Any) -> Self:
        """Returns the model with another search, which is an error if the search is fixed.

        Args:
            **settings: fields of `SearchSettings`, such as `beams`.
        """
        given = [name for name, value in settings.items() if value is not None]
        if given:
            raise UserError(
                f"the search of an export is part of its graph, so {', '.join(given)} cannot be "
                "set.",
                where=self.name,
                fix="Export the run again with these settings, or load the run directory.",
            )
        return self

    def require_used(  # noqa: B027 (a fixed search reads no settings)
        self, settings: Mapping[str, Any], temperature: float | None = None
    ) -> None:
        """Raises an `ArgumentError` for a search setting that calls would not read.

        Args:
            settings: fields of `SearchSettings`, such as `top_p`, which only samples read.
            temperature: the temperature of the calls, None for the search. Default None.
        """

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
        return f"<{type(self).__name__} {self.name}: {self.kind}, offers {', '.join(self.offers)}>"

    def _answers(self, signature: str, lines: list[str]) -> Iterator[dict[str, np.ndarray]]:
        """Yields the answers to parts of at most `WINDOW` lines; one, of 0 rows, to no lines."""
        for start in range(0, max(1, len(lines)), WINDOW):
            part = lines[start : start + WINDOW]
            yield call_signature(self, signature, len(part), text=part)

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


def _mapped(texts: Texts, function: Callable[[list[str]], Any], name: str = "texts") -> Any:
    """Applies a function of lists of strings; returns a single result for a single string."""
    lines, is_single = _as_lines(name, texts)
    results = function(lines)
    return results[0] if is_single else results


def _as_lines(name: str, texts: Texts) -> tuple[list[str], bool]:
    """Returns texts as a list of strings, and whether a single string was given."""
    values: Any = texts
    if hasattr(values, "numpy"):
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
